//! A name that answers differently each time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use egress::{
    Dialer, EgressClient, EgressError, EgressOptions, MAX_ADDRESSES, RequestLimits, UrlTrust,
};
use tokio::net::TcpStream;
use tool::BoxFuture;

use crate::egress::get;
use crate::test_server::ScriptedResolver;

fn at(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Refuses all, and counts.
#[derive(Debug, Default)]
struct CountingDialer {
    public: AtomicUsize,
    private: AtomicUsize,
}

impl Dialer for CountingDialer {
    fn dial_address(
        &self,
        address: SocketAddr,
    ) -> BoxFuture<'_, io::Result<(TcpStream, SocketAddr)>> {
        let count = if address.ip() == at("93.184.216.34") { &self.public } else { &self.private };
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// Public, private, both, in every order.
fn answer(count: usize) -> Vec<IpAddr> {
    let (public, private) = (at("93.184.216.34"), at("169.254.169.254"));
    match count % 5 {
        0 | 3 => vec![public],
        1 => vec![private],
        2 => vec![public, private],
        _ => vec![at("127.0.0.1"), public],
    }
}

#[tokio::test]
async fn a_flipping_name_is_never_dialled_where_it_was_not_checked() {
    let dials = Arc::new(CountingDialer::default());
    let resolver = ScriptedResolver::by(|_, count| answer(count));
    let settings = EgressOptions {
        dialer: dials.clone(),
        resolver: resolver.clone(),
        ..EgressOptions::default()
    };
    let egress = EgressClient::new(settings).unwrap();
    let requests = if std::env::var_os("TOOLKEEP_DEEP").is_some() { 100_000 } else { 10_000 };
    for count in 0..requests {
        let class =
            if count % 2 == 0 { UrlTrust::CallArgument } else { UrlTrust::UpstreamResponse };
        let error = egress
            .send_request(&class, get("http://flip.example.org/"), RequestLimits::default())
            .await
            .unwrap_err();
        let open = answer(count) == [at("93.184.216.34")];
        assert_eq!(matches!(error, EgressError::Unreachable { .. }), open, "{count}: {error}");
    }
    assert_eq!(resolver.1.load(Ordering::SeqCst), requests, "one look-up for each request");
    assert_eq!(
        (dials.public.load(Ordering::SeqCst), dials.private.load(Ordering::SeqCst)),
        (requests / 5 * 2, 0)
    );
}

#[tokio::test]
async fn control_to_check_and_then_look_up_again_dials_what_was_not_checked() {
    let resolver = ScriptedResolver::by(|_, count| answer(count));
    let dials = CountingDialer::default();
    for _ in 0..1000 {
        let checked =
            egress::DnsResolver::resolve_host(&*resolver, "flip.example.org").await.unwrap();
        if checked == [at("93.184.216.34")] {
            let again =
                egress::DnsResolver::resolve_host(&*resolver, "flip.example.org").await.unwrap();
            assert!(dials.dial_address(SocketAddr::new(again[0], 80)).await.is_err());
        }
    }
    assert!(dials.private.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn an_operators_name_does_not_lead_to_metadata() {
    let dials = Arc::new(CountingDialer::default());
    let resolver = ScriptedResolver::by(|_, count| {
        vec![at(["169.254.169.254", "fd00:ec2::254", "0.0.0.0"][count % 3])]
    });
    let settings = EgressOptions { dialer: dials.clone(), resolver, ..EgressOptions::default() };
    let egress = EgressClient::new(settings).unwrap();
    let url = "http://tools.example.org:8000/";
    let class = UrlTrust::Configured { origin: egress::Origin::parse(url).unwrap() };
    for _ in 0..3 {
        let error =
            egress.send_request(&class, get(url), RequestLimits::default()).await.unwrap_err();
        assert!(matches!(error, EgressError::Blocked { .. }), "{error}");
    }
    assert_eq!(dials.private.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn too_many_answers_and_none_are_errors() {
    let dials = Arc::new(CountingDialer::default());
    let resolver = ScriptedResolver::by(|_, count| match count {
        0 => vec![at("93.184.216.34"); MAX_ADDRESSES + 1],
        1 => [vec![at("93.184.216.34"); 499], vec![at("127.0.0.1")]].concat(),
        _ => Vec::new(),
    });
    let settings = EgressOptions { dialer: dials.clone(), resolver, ..EgressOptions::default() };
    let egress = EgressClient::new(settings).unwrap();
    for words in ["more than 16 addresses", "more than 16 addresses", "no address"] {
        let error = egress
            .send_request(
                &UrlTrust::CallArgument,
                get("http://many.example.org/"),
                RequestLimits::default(),
            )
            .await
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(dials.public.load(Ordering::SeqCst), 0);
}
