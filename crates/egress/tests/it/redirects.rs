//! Where a redirect may lead, and what may go along.

use std::sync::Arc;

use bytes::Bytes;
use egress::{
    EgressClient, EgressError, EgressOptions, Origin, RedirectPolicy, RequestLimits, UrlTrust,
};
use http::Request;
use tool::executor::DispatchState;

use crate::egress::get;
use crate::test_server::{Answer, RoutingDialer, TestServer, ok, redirect_to};

fn egress(sites: &[(&str, &TestServer)]) -> (EgressClient, Arc<RoutingDialer>) {
    let lead = RoutingDialer::to(sites);
    (
        EgressClient::new(EgressOptions { dialer: lead.clone(), ..EgressOptions::default() })
            .unwrap(),
        lead,
    )
}

async fn follow(
    egress: &EgressClient,
    class: &UrlTrust,
    request: Request<Bytes>,
) -> Result<Bytes, EgressError> {
    let follow = RedirectPolicy::default();
    egress
        .send_following_redirects(class, request, RequestLimits::default(), follow)
        .await?
        .into_body()
        .collect_bytes()
        .await
}

#[tokio::test]
async fn redirects_are_answers_unless_asked_for() {
    let site = TestServer::start(|_, _| redirect_to(302, "/next")).await;
    let (egress, _) = egress(&[("8.8.8.8", &site)]);
    let response = egress
        .send_request(&UrlTrust::CallArgument, get("http://8.8.8.8/"), RequestLimits::default())
        .await
        .unwrap();
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
            let site = TestServer::start(move |_, _| redirect_to(status, to)).await;
            let (egress, lead) = egress(&[("8.8.8.8", &site)]);
            let error =
                follow(&egress, &UrlTrust::CallArgument, get("http://8.8.8.8/")).await.unwrap_err();
            assert!(
                matches!(error, EgressError::Blocked { dispatch: DispatchState::MaybeSent, .. }),
                "{status} {to}: {error}"
            );
            assert_eq!(lead.count(), 1, "{status} {to}");
        }
    }
}

#[tokio::test]
async fn an_operators_origin_redirects_into_no_other_private_one() {
    let other = TestServer::start(|_, _| ok("private")).await;
    let to = other.url("/");
    let site = TestServer::start(move |_, request| {
        if request.starts_with("GET /same ") {
            ok("same")
        } else if request.starts_with("GET /a ") {
            redirect_to(302, "/same")
        } else {
            redirect_to(302, &to)
        }
    });
    let site = site.await;
    let egress = EgressClient::new(EgressOptions::default()).unwrap();
    let class = UrlTrust::Configured { origin: Origin::parse(&site.url("")).unwrap() };
    assert_eq!(follow(&egress, &class, get(&site.url("/a"))).await.unwrap(), "same");
    let error = follow(&egress, &class, get(&site.url("/b"))).await.unwrap_err();
    assert!(matches!(error, EgressError::Blocked { .. }), "{error}");
    assert_eq!(other.seen.accepted(), 0);
}

#[tokio::test]
async fn secrets_stay_with_the_origin_they_were_for() {
    let far = TestServer::start(|_, _| ok("far")).await;
    let near = TestServer::start(|_, request| {
        if request.starts_with("GET /start ") {
            redirect_to(307, "/again")
        } else {
            redirect_to(307, "http://9.9.9.9/far")
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
    assert_eq!(follow(&egress, &UrlTrust::CallArgument, request).await.unwrap(), "far");
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
    let far = TestServer::start(|_, _| ok("far")).await;
    let near = TestServer::start(|_, request| match request.split(' ').nth(1).unwrap() {
        "/same" => redirect_to(308, "/end"),
        "/see" => redirect_to(303, "/end"),
        "/found" => redirect_to(302, "http://9.9.9.9/"),
        "/end" => ok(request.rsplit("\r\n").next().unwrap()),
        _ => redirect_to(307, "http://9.9.9.9/"),
    });
    let near = near.await;
    let (egress, _) = egress(&[("8.8.8.8", &near), ("9.9.9.9", &far)]);
    let post = |path: &str| {
        Request::post(format!("http://8.8.8.8{path}")).body(Bytes::from("body")).unwrap()
    };
    assert_eq!(follow(&egress, &UrlTrust::CallArgument, post("/same")).await.unwrap(), "body");
    assert_eq!(follow(&egress, &UrlTrust::CallArgument, post("/see")).await.unwrap(), "");
    assert!(near.seen.requests().last().unwrap().starts_with("GET /end "));
    assert_eq!(follow(&egress, &UrlTrust::CallArgument, post("/found")).await.unwrap(), "far");
    assert!(
        far.seen.requests()[0].starts_with("GET / ") && !far.seen.requests()[0].contains("body")
    );
    let error = follow(&egress, &UrlTrust::CallArgument, post("/other")).await.unwrap_err();
    assert!(
        error.to_string().contains("body") && error.dispatch() == DispatchState::MaybeSent,
        "{error}"
    );
    assert_eq!(far.seen.requests().len(), 1);
}

#[tokio::test]
async fn a_circle_ends() {
    let site = TestServer::start(|_, _| redirect_to(302, "/")).await;
    let (egress, _) = egress(&[("8.8.8.8", &site)]);
    let error = follow(&egress, &UrlTrust::CallArgument, get("http://8.8.8.8/")).await.unwrap_err();
    assert!(error.to_string().contains("more than 5 redirects"), "{error}");
    assert_eq!(site.seen.requests().len(), 6);
}

#[tokio::test]
async fn another_service_that_is_offered_is_not_taken() {
    let site = TestServer::start(|_, _| {
        Answer::Say(
            b"HTTP/1.1 200 OK\r\nalt-svc: h2=\"127.0.0.1:443\"; ma=9\r\ncontent-length: 0\r\n\r\n"
                .to_vec(),
        )
    });
    let site = site.await;
    let (egress, lead) = egress(&[("8.8.8.8", &site)]);
    for _ in 0..3 {
        follow(&egress, &UrlTrust::CallArgument, get("http://8.8.8.8/")).await.unwrap();
    }
    let dialled = lead.dialled.lock().unwrap().clone();
    assert!(dialled.iter().all(|address| address.to_string() == "8.8.8.8:80"), "{dialled:?}");
}
