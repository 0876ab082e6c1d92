//! Where a redirect may lead, and what may go along.

use std::sync::Arc;

use bytes::Bytes;
use egress::{Class, Egress, EgressError, EgressSettings, Follow, HttpLimits, Origin};
use http::Request;
use tool::executor::Sent;

use crate::egress::get;
use crate::site::{Answer, Lead, Site, moved, ok};

fn egress(sites: &[(&str, &Site)]) -> (Egress, Arc<Lead>) {
    let lead = Lead::to(sites);
    (
        Egress::new(EgressSettings { dialer: lead.clone(), ..EgressSettings::default() }).unwrap(),
        lead,
    )
}

async fn follow(
    egress: &Egress,
    class: &Class,
    request: Request<Bytes>,
) -> Result<Bytes, EgressError> {
    let follow = Follow::default();
    egress
        .send_following(class, request, HttpLimits::default(), follow)
        .await?
        .into_body()
        .bytes()
        .await
}

#[tokio::test]
async fn redirects_are_answers_unless_asked_for() {
    let site = Site::start(|_, _| moved(302, "/next")).await;
    let (egress, _) = egress(&[("8.8.8.8", &site)]);
    let response =
        egress.send(&Class::Caller, get("http://8.8.8.8/"), HttpLimits::default()).await.unwrap();
    assert_eq!((response.status().as_u16(), site.seen.requests().len()), (302, 1));
}

#[tokio::test]
async fn a_hop_to_what_may_not_be_called_is_blocked_there() {
    for to in [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2130706433/",
        "//127.0.0.1/",
        "http://[::1]/",
        "http://localhost/",
        "http://8.8.8.8:22/",
        "http://user:pw@8.8.8.8/",
        "file:///etc/passwd",
        "gopher://8.8.8.8/",
        "http://",
    ] {
        for status in [301, 302, 303, 307, 308] {
            let site = Site::start(move |_, _| moved(status, to)).await;
            let (egress, lead) = egress(&[("8.8.8.8", &site)]);
            let error = follow(&egress, &Class::Caller, get("http://8.8.8.8/")).await.unwrap_err();
            assert!(
                matches!(error, EgressError::Blocked { sent: Sent::Maybe, .. }),
                "{status} {to}: {error}"
            );
            assert_eq!(lead.count(), 1, "{status} {to}");
        }
    }
}

#[tokio::test]
async fn an_operators_origin_redirects_into_no_other_private_one() {
    let other = Site::start(|_, _| ok("private")).await;
    let to = other.url("/");
    let site = Site::start(move |_, request| {
        if request.starts_with("GET /same ") {
            ok("same")
        } else if request.starts_with("GET /a ") {
            moved(302, "/same")
        } else {
            moved(302, &to)
        }
    });
    let site = site.await;
    let egress = Egress::new(EgressSettings::default()).unwrap();
    let class = Class::Operator { origin: Origin::parse(&site.url("")).unwrap() };
    assert_eq!(follow(&egress, &class, get(&site.url("/a"))).await.unwrap(), "same");
    let error = follow(&egress, &class, get(&site.url("/b"))).await.unwrap_err();
    assert!(matches!(error, EgressError::Blocked { .. }), "{error}");
    assert_eq!(other.seen.accepted(), 0);
}

#[tokio::test]
async fn secrets_stay_with_the_origin_they_were_for() {
    let far = Site::start(|_, _| ok("far")).await;
    let near = Site::start(|_, request| {
        if request.starts_with("GET /start ") {
            moved(307, "/again")
        } else {
            moved(307, "http://9.9.9.9/far")
        }
    });
    let near = near.await;
    let (egress, _) = egress(&[("8.8.8.8", &near), ("9.9.9.9", &far)]);
    let mut request = get("http://8.8.8.8/start");
    for (name, value) in [
        ("authorization", "Bearer s3"),
        ("cookie", "s3"),
        ("x-api-key", "s3"),
        ("referer", "s3"),
        ("accept", "text/plain"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    assert_eq!(follow(&egress, &Class::Caller, request).await.unwrap(), "far");
    let near = near.seen.requests();
    assert!(
        near.len() == 2 && near.iter().all(|request| request.contains("Bearer s3")),
        "{near:?}"
    );
    assert_eq!(
        far.seen.requests(),
        ["GET /far HTTP/1.1\r\naccept: text/plain\r\nhost: 9.9.9.9\r\n\r\n"]
    );
}

#[tokio::test]
async fn a_body_goes_again_within_its_origin_only() {
    let far = Site::start(|_, _| ok("far")).await;
    let near = Site::start(|_, request| match request.split(' ').nth(1).unwrap() {
        "/same" => moved(308, "/end"),
        "/see" => moved(303, "/end"),
        "/found" => moved(302, "http://9.9.9.9/"),
        "/end" => ok(request.rsplit("\r\n").next().unwrap()),
        _ => moved(307, "http://9.9.9.9/"),
    });
    let near = near.await;
    let (egress, _) = egress(&[("8.8.8.8", &near), ("9.9.9.9", &far)]);
    let post = |path: &str| {
        Request::post(format!("http://8.8.8.8{path}")).body(Bytes::from("body")).unwrap()
    };
    assert_eq!(follow(&egress, &Class::Caller, post("/same")).await.unwrap(), "body");
    assert_eq!(follow(&egress, &Class::Caller, post("/see")).await.unwrap(), "");
    assert!(near.seen.requests().last().unwrap().starts_with("GET /end "));
    assert_eq!(follow(&egress, &Class::Caller, post("/found")).await.unwrap(), "far");
    assert!(
        far.seen.requests()[0].starts_with("GET / ") && !far.seen.requests()[0].contains("body")
    );
    let error = follow(&egress, &Class::Caller, post("/other")).await.unwrap_err();
    assert!(error.to_string().contains("body") && error.sent() == Sent::Maybe, "{error}");
    assert_eq!(far.seen.requests().len(), 1);
}

#[tokio::test]
async fn a_circle_ends() {
    let site = Site::start(|_, _| moved(302, "/")).await;
    let (egress, _) = egress(&[("8.8.8.8", &site)]);
    let error = follow(&egress, &Class::Caller, get("http://8.8.8.8/")).await.unwrap_err();
    assert!(error.to_string().contains("over 5 redirects"), "{error}");
    assert_eq!(site.seen.requests().len(), 6);
}

#[tokio::test]
async fn another_service_that_is_offered_is_not_taken() {
    let site = Site::start(|_, _| {
        Answer::Say(
            b"HTTP/1.1 200 OK\r\nalt-svc: h2=\"127.0.0.1:443\"; ma=9\r\ncontent-length: 0\r\n\r\n"
                .to_vec(),
        )
    });
    let site = site.await;
    let (egress, lead) = egress(&[("8.8.8.8", &site)]);
    for _ in 0..3 {
        follow(&egress, &Class::Caller, get("http://8.8.8.8/")).await.unwrap();
    }
    let dialled = lead.dialled.lock().unwrap().clone();
    assert!(dialled.iter().all(|address| address.to_string() == "8.8.8.8:80"), "{dialled:?}");
}
