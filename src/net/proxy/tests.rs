use super::*;

fn settings(none: &str) -> ProxySettings {
    ProxySettings { http: "http://p:1".into(), https: "q:2".into(), none: none.into() }
}

#[test]
fn hosts_in_the_list_are_reached_directly() {
    // list, URL, direct
    let table = [
        ("", "http://example.com", false),
        ("", "http://localhost:80", true),
        ("", "http://127.0.0.9", true),
        ("", "http://[::1]:8080/", true),
        ("*", "https://example.com", true),
        ("example.com", "https://example.com", true),
        ("example.com", "https://a.example.com", true),
        ("EXAMPLE.com ", "https://a.Example.COM", true),
        ("example.com", "https://notexample.com", false),
        (".example.com", "https://example.com", false),
        (".example.com", "https://a.b.example.com", true),
        ("*.example.com", "https://a.example.com", true),
        ("*.example.com", "https://example.com", false),
        ("example.com:443", "https://example.com", true),
        ("example.com:8443", "https://example.com", false),
        ("example.com:80", "http://example.com", true),
        ("10.0.0.0/16", "http://10.0.3.4", true),
        ("10.0.0.0/16", "http://10.1.3.4", false),
        ("0.0.0.0/0", "http://10.1.3.4", true),
        ("fd00::/8", "http://[fd12::1]", true),
        ("fd00::/8", "http://[fe12::1]", false),
        ("10.0.0.1", "http://10.0.0.1:99", true),
        ("10.0.0.1:80", "http://10.0.0.1:99", false),
        ("10.0.0.1:99", "http://10.0.0.1:99", true),
        ("[fd00::1]:99", "http://[fd00::1]:99", true),
        ("fd00::1", "http://[fd00::1]:99", true),
        ("10.0.0.0/99, :80, ., ,x/y, a:b", "http://10.0.0.1", false),
        (" a.com ,b.com", "http://b.com", true),
    ];
    for (none, url, direct) in table {
        let proxy = Proxies::new(&settings(none)).unwrap().of(&Url::parse(url).unwrap());
        assert_eq!(proxy.is_none(), direct, "{url} with {none:?}");
    }
}

#[test]
fn each_scheme_has_its_own_proxy() {
    let of = |settings: &ProxySettings, url: &str| {
        Proxies::new(settings).unwrap().of(&Url::parse(url).unwrap()).map(String::from)
    };
    assert_eq!(of(&settings(""), "http://a").as_deref(), Some("http://p:1/"));
    assert_eq!(of(&settings(""), "https://a").as_deref(), Some("http://q:2/"));
    let only_http = ProxySettings { https: String::new(), ..settings("") };
    assert_eq!(of(&only_http, "https://a"), None);
}

#[test]
fn proxy_that_is_no_url_is_an_error_without_its_password() {
    for wrong in ["socks5://user:secret@h", "http://user:secret@", "http://user:secret@h:99999"] {
        let error = Proxies::new(&ProxySettings { http: wrong.into(), ..ProxySettings::default() }).unwrap_err();
        assert!(error.contains("httpProxy") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn proxy_of_grpc_is_one_in_plain_text() {
    for (text, words) in [("https://proxy.example:3128", "use http://"), ("ftp://proxy.example", "GRPC_PROXY is not")] {
        let error = Proxies::for_grpc(text, "").unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let proxies = Proxies::for_grpc("proxy.example:3128", ".svc,10.0.0.0/8").unwrap();
    let of = |address: &str| proxies.of(&Url::parse(&format!("http://{address}")).unwrap()).is_some();
    let through = ["catalog.example:50051", "a.olm.svc:50051", "10.1.2.3:50051", "[2001:db8::1]:50051"].map(of);
    assert_eq!(through, [true, false, false, true]);
}
