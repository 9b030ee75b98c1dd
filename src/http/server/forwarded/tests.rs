use super::*;

/// A service behind proxies at 10.x.
fn behind(base: Option<&str>) -> Forwarding {
    let trusted = "10.0.0.0/8, 127.0.0.1, fd00::/8".parse().unwrap();
    Forwarding { trusted, base: base.map(|base| base.parse().unwrap()) }
}

/// The base, the path that is left and the origin of a request.
fn received(
    forwarding: &Forwarding,
    peer: &str,
    target: &str,
    headers: &[(&'static str, &str)],
) -> (String, String, IpAddr, String) {
    let mut request = Request::builder().uri(target).header("host", "inside:8080");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(()).unwrap();
    let base = forwarding.receive(&mut request, peer.parse().unwrap());
    let origin = request.extensions().get::<Origin>().unwrap();
    (base.to_string(), request.uri().to_string(), origin.client, origin.to_string())
}

fn client(peer: &str, headers: &[(&'static str, &str)]) -> String {
    received(&behind(None), peer, "/", headers).2.to_string()
}

#[test]
fn the_client_is_the_nearest_hop_that_is_not_trusted() {
    for (header, expected) in [
        ("203.0.113.7", "203.0.113.7"),
        ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("198.51.100.1, 203.0.113.7, 10.9.9.9, 10.1.1.1", "203.0.113.7"),
        ("10.2.2.2, 10.1.1.1", "10.2.2.2"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("203.0.113.7, unknown", "10.0.0.1"),
        ("203.0.113.7, 10.3.3.3, <script>, 10.2.2.2", "10.2.2.2"),
        ("203.0.113.7,", "10.0.0.1"),
        ("", "10.0.0.1"),
    ] {
        assert_eq!(client("10.0.0.1", &[("x-forwarded-for", header)]), expected, "{header}");
    }
}

#[test]
fn several_header_lines_are_one_list() {
    let lines = [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.7")];
    assert_eq!(client("10.0.0.1", &lines), "203.0.113.7");
    let lines = [("forwarded", "for=198.51.100.1"), ("forwarded", "for=203.0.113.7")];
    assert_eq!(client("10.0.0.1", &lines), "203.0.113.7");
}

#[test]
fn the_forwarded_header_is_parsed() {
    for (header, expected) in [
        ("for=203.0.113.7", "203.0.113.7"),
        ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
        ("for=198.51.100.1;proto=https, for=203.0.113.7;by=10.0.0.1", "203.0.113.7"),
        ("for=203.0.113.7;by=\"a;b,c\\\"\", for=10.1.1.1", "203.0.113.7"),
        ("for=203.0.113.7, proto=http", "10.0.0.1"),
        ("for=203.0.113.7, for=_hidden", "10.0.0.1"),
        ("for=\"203.0.113.7, for=198.51.100.1", "10.0.0.1"),
        ("nothing", "10.0.0.1"),
    ] {
        assert_eq!(client("10.0.0.1", &[("forwarded", header)]), expected, "{header}");
    }
}

#[test]
fn forwarded_is_ignored_next_to_x_headers() {
    let headers = [("forwarded", "for=198.51.100.1"), ("x-forwarded-for", "203.0.113.7")];
    assert_eq!(client("10.0.0.1", &headers), "203.0.113.7");
    let headers = [("forwarded", "for=198.51.100.1"), ("x-forwarded-proto", "https")];
    assert_eq!(client("10.0.0.1", &headers), "10.0.0.1");
}

#[test]
fn headers_of_untrusted_peers_are_ignored() {
    let headers = [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "agent.example"),
        ("x-forwarded-prefix", "/agent"),
    ];
    let (base, path, client, origin) =
        received(&behind(None), "192.0.2.1", "/agent/v1/tools", &headers);
    assert_eq!((base.as_str(), path.as_str()), ("", "/agent/v1/tools"));
    assert_eq!(client.to_string(), "192.0.2.1");
    assert_eq!(origin, "http://inside:8080");
    let (base, path, client, origin) =
        received(&behind(None), "::ffff:10.0.0.1", "/agent/v1/tools", &headers);
    assert_eq!((base.as_str(), path.as_str()), ("/agent", "/v1/tools"));
    assert_eq!(client.to_string(), "203.0.113.7");
    assert_eq!(origin, "https://agent.example");
}

#[test]
fn the_origin_is_that_of_the_nearest_proxy() {
    let origin =
        |headers: &[(&'static str, &str)]| received(&behind(None), "10.0.0.1", "/", headers).3;
    assert_eq!(origin(&[("forwarded", "host=a.example;proto=https")]), "https://a.example");
    let chain = [("x-forwarded-proto", "https, http"), ("x-forwarded-host", "evil, a.example")];
    assert_eq!(origin(&chain), "http://a.example");
    for host in ["a b", "user@a.example", "a.example/path", ""] {
        assert_eq!(origin(&[("x-forwarded-host", host)]), "http://inside:8080", "{host}");
    }
}

#[test]
fn a_base_path_is_removed_from_the_target_only_as_a_whole() {
    for (target, left) in [
        ("/agent/v1/tools", "/v1/tools"),
        ("/agent/v1/tools?limit=1", "/v1/tools?limit=1"),
        ("/agent", "/"),
        ("/agent?limit=1", "/?limit=1"),
        ("/agent/", "/"),
        ("/agent//v1", "//v1"),
        ("/agents/v1", "/agents/v1"),
        ("/v1/tools", "/v1/tools"),
        ("/v1/agent", "/v1/agent"),
        ("http://inside/agent/v1", "http://inside/v1"),
        ("*", "*"),
    ] {
        let received = received(&behind(Some("/agent/")), "192.0.2.1", target, &[]);
        assert_eq!((received.0.as_str(), received.1.as_str()), ("/agent", left), "{target}");
    }
}

#[test]
fn the_configured_base_path_wins_over_forwarded_ones() {
    let headers = [("x-forwarded-prefix", "/other")];
    assert_eq!(received(&behind(Some("/agent")), "10.0.0.1", "/", &headers).0, "/agent");
    assert_eq!(received(&behind(Some("/")), "10.0.0.1", "/", &headers).0, "");
}

#[test]
fn only_plain_paths_are_valid_base_paths() {
    for (text, expected) in [
        ("/", Some("")),
        ("/agent", Some("/agent")),
        ("/agent/", Some("/agent")),
        ("/a/b.c/d-e_f~g", Some("/a/b.c/d-e_f~g")),
        ("", None),
        ("agent", None),
        ("//", None),
        ("//evil.example", None),
        ("/agent//", None),
        ("/a//b", None),
        ("/a/../b", None),
        ("/a/./b", None),
        ("/..", None),
        ("/a?b", None),
        ("/a#b", None),
        ("/a b", None),
        ("/a%2fb", None),
        ("/a\\b", None),
        ("/a\r\nset-cookie: b", None),
        ("/a\tb", None),
        ("/ä", None),
        ("/a, /b", None),
        ("https://evil.example/", None),
    ] {
        let base = text.parse::<BasePath>().ok().map(|base| base.to_string());
        assert_eq!(base.as_deref(), expected, "{text:?}");
    }
    assert!(format!("/{}", "a".repeat(256)).parse::<BasePath>().is_err());
}

#[test]
fn several_prefixes_are_ignored() {
    let headers = [("x-forwarded-prefix", "/one"), ("x-forwarded-prefix", "/two")];
    assert_eq!(received(&behind(None), "10.0.0.1", "/", &headers).0, "");
}

#[test]
fn trusted_proxies_are_addresses_and_networks() {
    let named: TrustedProxies = "192.0.2.1, 10.0.0.0/8,fd00::/8".parse().unwrap();
    let no_proxy: TrustedProxies = "none".parse().unwrap();
    let ours = TrustedProxies::default();
    for (address, expected) in [
        ("192.0.2.1", [true, false, false]),
        ("192.0.2.2", [false, false, false]),
        ("10.255.0.1", [true, false, false]),
        ("fd00::1", [true, false, false]),
        ("127.0.0.53", [false, false, true]),
        ("::1", [false, false, true]),
        ("::2", [false, false, false]),
    ] {
        let address: IpAddr = address.parse().unwrap();
        let found = [&named, &no_proxy, &ours].map(|proxies| proxies.contains(address));
        assert_eq!(found, expected, "{address}");
    }
    for text in ["", "10.0.0.0/33", "localhost", "10.0.0.1,", "none,10.0.0.1"] {
        assert!(text.parse::<TrustedProxies>().is_err(), "{text:?}");
    }
}

#[test]
fn links_begin_with_the_base_path_of_the_request() {
    let link = || link(format_args!("/tools"));
    assert_eq!(link(), "/v1/tools");
    let base: BasePath = "/agent".parse().unwrap();
    assert_eq!(
        BASE.sync_scope(base, || (link(), public("/healthz"))),
        ("/agent/v1/tools".to_owned(), "/agent/healthz".to_owned())
    );
}
