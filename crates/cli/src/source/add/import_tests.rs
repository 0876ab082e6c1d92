use std::fs;

use serde_json::{Value, json};
use testkit::http_server::{MockResponse, MockServer};

use super::tests::Tried;
use crate::tests::played::Ran;

const EMPTY: &str = "version: 1\n";

/// A mock server with a runtime of its own, because a command starts another one.
struct Site {
    server: MockServer,
    _runtime: tokio::runtime::Runtime,
}

impl Site {
    fn new(answers: Vec<MockResponse>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let server = runtime.block_on(MockServer::start_server(answers));
        Self { server, _runtime: runtime }
    }

    /// A site whose answers name its own address as `{origin}`.
    fn with_documents(documents: &[Value]) -> Self {
        let site = Self::new(vec![MockResponse::Hang]);
        let texts = documents.iter().map(Value::to_string);
        let answers = texts.map(|text| text.replace("{origin}", &site.server.url()));
        site.server.set_answers(answers.map(|text| MockResponse::Body(200, text)).collect());
        site
    }

    fn request_lines(&self) -> Vec<String> {
        let requests = self.server.received_requests().into_iter();
        requests.map(|request| request.request_line.replace(" http/1.1", "")).collect()
    }
}

fn catalog(url: &str) -> Value {
    json!({"specVersion": "1.0", "entries": [
        {"identifier": "urn:air:h:skill:s", "type": "application/agent-skills+zip", "url": "x"},
        {"identifier": "urn:air:h:mcp:m", "type": "application/mcp-server-card+json", "url": url}]})
}

fn card(url: &str) -> Value {
    json!({"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example/weather", "version": "1.2.3", "description": "Weather",
        "remotes": [{"type": "streamable-http", "url": url,
            "supportedProtocolVersions": ["2025-11-25"]}]})
}

fn package() -> Value {
    json!({"name": "io.github.ann/weather", "version": "1.0.2", "description": "Weather",
        "packages": [{"registryType": "npm", "identifier": "@ann/weather", "version": "1.0.2",
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "named", "name": "--city", "isRequired": true}],
            "environmentVariables": [{"name": "WEATHER_KEY", "isRequired": true, "isSecret": true,
                "description": "The key of the weather service"}]}]})
}

/// Tries an import that fails, and checks that nothing was written.
fn refused(tried: &Tried, line: &[&str]) -> (u8, String) {
    let before = tried.text();
    let Ran { exit, err, .. } = tried.add(line);
    assert_ne!(exit, 0, "{line:?}");
    assert_eq!(tried.text(), before, "{line:?}");
    assert!(err.chars().all(|c| c == '\n' || tool::display_text::is_printable(c)), "{err:?}");
    (exit, err)
}

#[test]
fn a_file_becomes_a_source_with_its_secret_as_a_variable() {
    let tried = Tried::on(EMPTY);
    let document = tried.file.with_file_name("server.json");
    fs::write(&document, package().to_string()).unwrap();
    let document = document.to_str().unwrap();
    let (exit, told) = refused(&tried, &[document, "--yes", "--set", "city=Oslo"]);
    assert_eq!(exit, 2, "{told}");
    assert!(
        told.contains("the secret `WEATHER_KEY` is missing: The key of the weather service"),
        "{told}"
    );
    assert!(told.contains("--set 'WEATHER_KEY=${VARIABLE}'"), "{told}");
    let plain = ["--yes", "--set", "city=Oslo", "--set", "WEATHER_KEY=s3cret"];
    let (exit, told) = refused(&tried, &[&[document], &plain[..]].concat());
    assert_eq!(exit, 2, "{told}");
    assert!(told.contains("is a secret") && !told.contains("s3cret"), "{told}");
    let unset = ["--yes", "--set", "city=Oslo", "--set", "WEATHER_KEY=${NOT_SET_ANYWHERE_HERE}"];
    let (_, told) = refused(&tried, &[&[document], &unset[..]].concat());
    assert!(told.contains("the environment variable `NOT_SET_ANYWHERE_HERE` is not set"), "{told}");
    let good = ["--set", "city=Oslo", "--set", "WEATHER_KEY=${PATH}"];
    // A program is confirmed: nobody sits at a terminal here.
    let (exit, told) = refused(&tried, &[&[document], &good[..]].concat());
    assert!(exit == 2 && told.contains("pass `--yes`") && told.contains("command: npx"), "{told}");
    let ran = tried.add(&[&[document, "--yes"], &good[..]].concat());
    assert_eq!(ran.exit, 0, "{}", ran.err);
    let expected = "version: 1
sources:
  - name: weather
    mcp:
      command: npx
      args:
      - -y
      - \"@ann/weather@1.0.2\"
      - \"--city=Oslo\"
      env:
        WEATHER_KEY: ${PATH}
";
    assert_eq!(tried.text().replace("- --city=Oslo", "- \"--city=Oslo\""), expected);
    // The name is taken now; another one is free.
    let (_, told) = refused(&tried, &[&[document, "--yes"], &good[..]].concat());
    assert!(told.contains("the source `weather` exists already"), "{told}");
    let other = tried
        .add(&[&[document, "--yes", "--name", "second", "--env", "LANG=C"], &good[..]].concat());
    assert_eq!(other.exit, 0, "{}", other.err);
    assert!(tried.text().contains("- name: second") && tried.text().contains("LANG: C"));
}

#[test]
fn a_host_names_its_card_and_the_card_its_endpoint() {
    let site = Site::with_documents(&[catalog("{origin}/mcp/server-card"), card("{origin}/mcp")]);
    let tried = Tried::on(EMPTY);
    let ran = tried.add(&[&site.server.url(), "--trust", "review"]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    assert_eq!(site.request_lines(), ["get /.well-known/ai-catalog.json", "get /mcp/server-card"]);
    let requests = site.server.received_requests();
    let accepts = |at: usize, media: &str| {
        requests[at].headers.iter().any(|it| it.starts_with("accept: ") && it.contains(media))
    };
    assert!(
        accepts(0, "application/ai-catalog+json") && accepts(1, "application/mcp-server-card+json")
    );
    let expected = format!(
        "version: 1\nsources:\n  - name: weather\n    mcp:\n      url: {}/mcp\n    trust: review\n",
        site.server.url()
    );
    assert_eq!(tried.text(), expected);
    assert!(ran.err.contains("note: com.example/weather 1.2.3: Weather"), "{}", ran.err);
    // A card within the catalog, and a relative place, need no more and no less.
    let mut inline = catalog("");
    inline["entries"][1] = json!({"identifier": "i", "type": "application/mcp-server-card+json",
        "data": card("{origin}/mcp")});
    for (documents, count) in
        [(vec![inline], 1), (vec![catalog("/mcp/server-card"), card("{origin}/mcp")], 2)]
    {
        let site = Site::with_documents(&documents);
        let tried = Tried::on(EMPTY);
        assert_eq!(tried.add(&[&site.server.url()]).exit, 0);
        assert_eq!(site.request_lines().len(), count);
    }
}

#[test]
fn a_registry_has_a_server_by_its_name() {
    let listed = |name: &str| {
        let mut server = card("{origin}/mcp");
        server["name"] = json!(name);
        json!({"server": server, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active"}}})
    };
    let site = Site::with_documents(&[listed("io.github.ann/weather")]);
    let registry = site.server.url();
    let tried = Tried::on(EMPTY);
    let ran = tried.add(&["io.github.ann/weather", "--registry", &registry]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    let versioned = [
        "io.github.ann/weather",
        "--registry",
        &registry,
        "--server-version",
        "1.2.3+a",
        "--name",
        "b",
    ];
    assert_eq!(tried.add(&versioned).exit, 0);
    assert_eq!(
        site.request_lines(),
        [
            "get /v0.1/servers/io.github.ann%2fweather/versions/latest",
            "get /v0.1/servers/io.github.ann%2fweather/versions/1.2.3+a",
        ]
    );
    let (_, told) = refused(&tried, &["io.github.eve/weather", "--registry", &registry]);
    assert!(
        told.contains("returned the server `io.github.ann/weather` for `io.github.eve/weather`")
    );
    // The address of the document itself does as well.
    let url = format!("{registry}/v0.1/servers/io.github.ann%2Fweather/versions/latest");
    assert_eq!(tried.add(&[&url, "--name", "c"]).exit, 0);
}

/// A card may not lead to another host, to an address within the network, or to one without TLS.
#[test]
fn a_card_opens_no_other_host() {
    let tried = Tried::on(EMPTY);
    let hostile = [
        "https://evil.example.com/mcp",
        "https://169.254.169.254/latest/meta-data",
        "http://127.0.0.2:1/mcp",
        "https://{host}/mcp",
        "https://evil.example.com/{origin}",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "not a url",
    ];
    for url in hostile {
        let mut document = card(url);
        document["remotes"][0]["variables"] = json!({"host": {"default": "evil.example.com/x?"}});
        let site = Site::with_documents(&[catalog("{origin}/card"), document]);
        let (exit, told) = refused(&tried, &[&site.server.url()]);
        assert_eq!(exit, 1, "{url}: {told}");
        assert!(told.contains("on another host") || told.contains("invalid URL"), "{url}: {told}");
        assert_eq!(site.request_lines().len(), 2, "{url}");
    }
    // Neither may a catalog, and no request goes there.
    for url in
        ["https://evil.example.com/card", "http://169.254.169.254/card", "file:///etc/passwd"]
    {
        let site = Site::with_documents(&[catalog(url)]);
        let (_, told) = refused(&tried, &[&site.server.url()]);
        assert!(told.contains("which is on another host"), "{url}: {told}");
        assert_eq!(site.request_lines().len(), 1);
    }
    // The control: nothing else keeps such an address out.
    let naive = tried.add(&["x", "--mcp", "https://169.254.169.254/latest/meta-data", "--dry-run"]);
    assert_eq!(naive.exit, 0, "{}", naive.err);
}

/// A registry lists servers of any host, at public addresses with TLS.
#[test]
fn a_registry_opens_no_address_within_the_network() {
    let tried = Tried::on(EMPTY);
    let inner = Site::new(vec![MockResponse::Body(200, "{}".to_owned())]);
    let port = inner.server.address.port();
    for (url, part) in [
        ("https://169.254.169.254/mcp".to_owned(), "169.254.169.254"),
        ("https://10.0.0.1/mcp".to_owned(), "10.0.0.1"),
        ("https://[::1]:8443/mcp".to_owned(), "[::1]"),
        ("https://localhost:8443/mcp".to_owned(), "localhost"),
        ("https://db.internal/mcp".to_owned(), "db.internal"),
        (format!("http://127.0.0.1:{port}/mcp"), "has no TLS"),
        ("http://weather.example.com/mcp".to_owned(), "has no TLS"),
    ] {
        let site = Site::with_documents(&[card(&url)]);
        let (exit, told) =
            refused(&tried, &["com.example/weather", "--registry", &site.server.url()]);
        assert_eq!(exit, 1, "{url}: {told}");
        assert!(told.contains(part) && told.contains("--mcp URL"), "{url}: {told}");
    }
    assert_eq!(inner.request_lines(), Vec::<String>::new(), "nothing was asked");
}

#[test]
fn a_document_that_is_huge_slow_or_elsewhere_is_refused() {
    let tried = Tried::on(EMPTY);
    let huge = format!("{{\"specVersion\":\"1.0\",\"entries\":[\"{}\"]}}", "a".repeat(300 << 10));
    for (answers, part) in [
        (vec![MockResponse::Endless], "262144"),
        (vec![MockResponse::Body(200, huge)], "262144"),
        (vec![MockResponse::Body(404, "{}".to_owned())], "returned status 404"),
        (vec![MockResponse::Body(200, "<html>".to_owned())], "the AI catalog is not valid"),
        (vec![MockResponse::Truncate], "127.0.0.1"),
        (
            vec![MockResponse::Redirect(302, "http://169.254.169.254/x".to_owned())],
            "169.254.169.254",
        ),
        (vec![MockResponse::Redirect(302, "/.well-known/ai-catalog.json".to_owned())], "redirects"),
    ] {
        let site = Site::new(answers);
        let (exit, told) = refused(&tried, &[&site.server.url()]);
        assert_eq!(exit, 1, "{told}");
        assert!(told.contains(part), "{part}: {told}");
        assert!(site.request_lines().len() <= 5, "{:?}", site.request_lines());
    }
    // A catalog that names itself is read once.
    let mut own = catalog("x");
    own["entries"] = json!([{"identifier": "c", "type": "application/ai-catalog+json",
        "url": "{origin}/.well-known/ai-catalog.json"}]);
    let site = Site::with_documents(&[own]);
    let (_, told) = refused(&tried, &[&site.server.url()]);
    assert!(told.contains("names no MCP server card"), "{told}");
    assert_eq!(site.request_lines().len(), 1);
}

/// Texts of a document reach the terminal and the file as text alone.
#[test]
fn texts_of_a_document_are_data() {
    let tried = Tried::on(EMPTY);
    for name in ["<script>alert(1)</script>/x", "a/\u{1b}[2J\u{202e}x", "a/b\nsources: []"] {
        let mut document = card("{origin}/mcp");
        document["name"] = json!(name);
        let site = Site::with_documents(&[catalog("{origin}/card"), document]);
        let (_, told) = refused(&tried, &[&site.server.url()]);
        assert!(told.contains("invalid server name"), "{told}");
    }
    let mut document = card("{origin}/mcp");
    document["description"] = json!("\u{1b}[2J\u{202e}gone\nerror: forged");
    document["version"] = json!("\u{7}1");
    document["remotes"][0]["headers"] =
        json!([{"name": "X-Note", "value": "a: [b]\u{85} ${HOME} #c"}]);
    let site = Site::with_documents(&[catalog("{origin}/card"), document]);
    let ran = tried.add(&[&site.server.url(), "--dry-run"]);
    assert!(
        !ran.err.contains(['\u{1b}', '\u{7}', '\u{202e}']) && !ran.err.contains("\nerror: forged"),
        "{:?}",
        ran.err
    );
    assert_eq!(ran.exit, 0, "{}", ran.err);
    let shown = |c: char| c == '\n' || tool::display_text::is_printable(c);
    assert!(ran.out.chars().all(shown), "{:?}", ran.out);
    // A header name that ends the line, or a value that does, is refused by the configuration.
    for (name, value) in [("X-A\nb", "c"), ("X-A", "b\r\nX-B: c"), ("Host", "evil.example.com")] {
        let mut document = card("{origin}/mcp");
        document["remotes"][0]["headers"] = json!([{"name": name, "value": value}]);
        let site = Site::with_documents(&[catalog("{origin}/card"), document]);
        let (_, told) = refused(&tried, &[&site.server.url()]);
        assert!(told.contains("cannot be sent"), "{told}");
    }
    let mut document = card("{origin}/mcp");
    document["remotes"][0]["headers"] = json!([{"name": "X-Note", "value": "a: [b] ${HOME} #c"}]);
    let site = Site::with_documents(&[catalog("{origin}/card"), document]);
    let ran = tried.add(&[&site.server.url()]);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    assert!(tried.text().contains("$${HOME} #c"), "{}", tried.text());
}

#[test]
fn what_names_no_server_is_a_usage_error() {
    let tried = Tried::on(EMPTY);
    for (line, part) in [
        (&["notes"][..], "no source of tools is given for `notes`"),
        (&["missing.json"], "`missing.json` cannot be read"),
        (&["ftp://h.example/x"], "no source of tools is given"),
        (&["notes", "--tools", "t.yaml", "--set", "a=b"], "`--set` requires a published server"),
        (&["notes", "--mcp", "https://h.example", "--use", "npm"], "`--use` requires"),
    ] {
        let (_, told) = refused(&tried, line);
        assert!(told.contains(part), "{line:?}: {told}");
    }
}
