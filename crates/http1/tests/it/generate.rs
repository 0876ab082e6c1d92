//! Inputs from a grammar of good and odd parts, and then damaged: the same ones each time.

/// Makes inputs from a seed (SplitMix64).
pub(crate) struct Generator(u64);

const REQUEST_LINES: &[&str] = &[
    "GET /mcp HTTP/1.1",
    "POST /mcp HTTP/1.0",
    "POST http://localhost/mcp HTTP/1.1",
    "POST  /mcp HTTP/1.1",
    "POST /mcp  HTTP/1.1",
    "POST /mcp HTTP/1.1 ",
    "POST /mcp HTTP/2.0",
    "POST /mcp",
    "post /mcp HTTP/1.1",
    "POST * HTTP/1.1",
    "POST /mcp/a%2Fb HTTP/1.1",
    "POST /a?b=c&d=%00 HTTP/1.1",
    "POST /a#b HTTP/1.1",
    "POST /\u{e9} HTTP/1.1",
    "POST //x/../y HTTP/1.1",
    "POST /<\"{}|^ HTTP/1.1",
    "PUT /mcp HTTP/1.1",
    "CONNECT localhost:80 HTTP/1.1",
    "PRI * HTTP/2.0",
];

const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 201 Created",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 101 Switching Protocols",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 200",
    "HTTP/1.1 200 ",
    "HTTP/1.1  200 OK",
    "HTTP/1.1 200 \u{e9}",
    "HTTP/1.1 099 x",
    "HTTP/1.1 999 x",
    "HTTP/1.1 2000 x",
    "HTTP/1.1 20 x",
    "HTTP/2.0 200 OK",
    "http/1.1 200 OK",
    "ICY 200 OK",
];

const INTERIM: &[&str] = &[
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "HTTP/1.1 102 x\r\nContent-Length: 5\r\n\r\n",
    "\r\n",
];

const FIELDS: &[&str] = &[
    "Accept: application/json, text/event-stream",
    "Authorization: Bearer abc",
    "Content-Type: application/json",
    "X-Empty:",
    "X-Space:   a  b  ",
    "X-Tab:\ta\t",
    "X-Obs: \u{e9}",
    "Set-Cookie: a=b",
    "Set-Cookie: c=d",
    "Connection: keep-alive",
    "Connection: Keep-Alive",
    "Host: other",
    "content-lengths: 3",
    "X-!#$%&'*+-.^_`|~: 1",
];

const ODD_FIELDS: &[&str] = &[
    "Content-Length: 3",
    "Content-Length: 0",
    "Content-Length: +3",
    "Content-Length: -3",
    "Content-Length: 3, 3",
    "Content-Length: 3 3",
    "Content-Length: 0x3",
    "Content-Length: 003",
    "Content-Length:",
    "Content-Length: 18446744073709551616",
    "Content-Length: 99999999999999999999",
    "Content-Length : 3",
    "Content-Length\t: 3",
    "Content_Length: 3",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: Chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: \u{b}chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding:",
    "Connection: close",
    "Connection: Close, x",
    "Connection: upgrade",
    "Connection: x, keep-alive",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "TE: trailers",
    "Trailer: X",
    "Keep-Alive: timeout=5",
    "X-Folded: a\r\n b",
    " X-Leading: a",
    ": nameless",
    "no colon",
    "X-Null: a\0b",
    "X-\0: b",
    "X-Cr: a\rContent-Length: 9",
    "X-Lf: a\nContent-Length: 9",
    "X Y: a",
];

const CHUNK_ENDS: &[&str] = &[
    "0\r\n\r\n",
    "0\r\n\r\n",
    "0\r\n\r\n",
    "00\r\n\r\n",
    "0;a=b\r\n\r\n",
    "0 \t\r\n\r\n",
    "0\r\nX: y\r\n\r\n",
    "0\r\nX: y\r\nZ:\r\n\r\n",
    "0\r\nContent-Length: 5\r\n\r\n",
    "0\r\nno field\r\n\r\n",
    "0\r\n X: y\r\n\r\n",
    "0\r\nX : y\r\n\r\n",
    "0\r\nX: \0\r\n\r\n",
    "0\r\nX: y\n\r\n",
    "0\n\n",
    "0\r\n",
    "0\r\r\n\r\n",
    "",
    "-0\r\n\r\n",
];

const CHUNK_SIZES: &[&str] = &[
    ";ext",
    ";ext=\"a;b\"",
    " ",
    "\t",
    " ;x",
    ";",
    "\r",
    "\u{b}",
    "x",
    " 1",
    ";a\rb",
    ";a\nb",
    "\u{c}",
];

const LINE_ENDS: &[&str] = &["\n", "\r", "\r\r\n", "\n\r", " \r\n", ""];

const BODIES: &[&str] = &[
    "",
    "abc",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
    "0\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    "3\r\nabc\r\n0\r\n\r\n",
    "\r\n\r\n",
];

const ODD_BYTES: &[u8] = b"\r\n\0\t :;,0123456789xX+-\x0b\x0c\x7f\x80\xff/H";

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Bytes of one read.
    pub(crate) fn step(&mut self) -> usize {
        match self.below(40) {
            0 => 1,
            1 => 3,
            2..=4 => 17,
            5..=9 => 64,
            10..=19 => 1_000,
            _ => usize::MAX,
        }
    }

    /// Text as bytes: what stands for a byte over 127 is that byte.
    fn add(out: &mut Vec<u8>, text: &str) {
        out.extend(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')));
    }

    fn line_end(&mut self, out: &mut Vec<u8>) {
        let end = if self.one_in(150) { self.pick(LINE_ENDS) } else { "\r\n" };
        Self::add(out, end);
    }

    /// Requests, one after the other on a connection. Half of those that follow are like the one before.
    pub(crate) fn requests(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut before: Option<(Vec<u8>, Vec<u8>)> = None;
        for _ in 0..=self.below(3) {
            let body = self.pick(BODIES);
            let (head, rest) = match before.take().filter(|_| !self.one_in(2)) {
                Some(parts) => parts,
                None => self.request_head(),
            };
            out.extend_from_slice(&head);
            let length = body.len() + if self.one_in(30) { self.below(4) } else { 0 };
            let text = if self.one_in(40) { format!("0{length}") } else { length.to_string() };
            Self::add(&mut out, &text);
            out.extend_from_slice(&rest);
            Self::add(&mut out, body);
            before = Some((head, rest));
        }
        self.damage(&mut out);
        out
    }

    /// A head up to its length, and from there on.
    fn request_head(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (mut head, mut rest) = (Vec::new(), Vec::new());
        let line = if self.one_in(12) { self.pick(REQUEST_LINES) } else { "POST /mcp HTTP/1.1" };
        Self::add(&mut head, line);
        self.line_end(&mut head);
        Self::add(&mut head, "Host: localhost");
        self.line_end(&mut head);
        self.fields(&mut head);
        Self::add(&mut head, "Content-Length: ");
        self.line_end(&mut rest);
        self.fields(&mut rest);
        self.line_end(&mut rest);
        (head, rest)
    }

    fn fields(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.below(3) {
            let field = if self.one_in(10) { self.pick(ODD_FIELDS) } else { self.pick(FIELDS) };
            Self::add(out, field);
            self.line_end(out);
        }
    }

    /// Responses, each to one request on a connection. Half of those that follow have the head before.
    pub(crate) fn responses(&mut self) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        let mut before: Option<(Vec<u8>, Vec<u8>, bool)> = None;
        for _ in 0..=self.below(3) {
            let mut out = Vec::new();
            while self.one_in(12) {
                let interim = self.pick(INTERIM);
                Self::add(&mut out, interim);
            }
            let body = self.pick(BODIES);
            let (head, rest, is_chunked) = match before.take().filter(|_| !self.one_in(2)) {
                Some(parts) => parts,
                None => self.response_head(),
            };
            out.extend_from_slice(&head);
            if is_chunked {
                out.extend_from_slice(&rest);
                self.chunks(&mut out, body);
            } else {
                let length = body.len() + if self.one_in(30) { self.below(4) } else { 0 };
                Self::add(&mut out, &length.to_string());
                out.extend_from_slice(&rest);
                Self::add(&mut out, body);
            }
            before = Some((head, rest, is_chunked));
            self.damage(&mut out);
            parts.push(out);
        }
        parts
    }

    /// The same of a response, and whether its body comes in chunks.
    fn response_head(&mut self) -> (Vec<u8>, Vec<u8>, bool) {
        let (mut head, mut rest) = (Vec::new(), Vec::new());
        let line = if self.one_in(8) { self.pick(STATUS_LINES) } else { "HTTP/1.1 200 OK" };
        Self::add(&mut head, line);
        self.line_end(&mut head);
        self.fields(&mut head);
        let is_chunked = self.one_in(2);
        let framing = match (is_chunked, self.one_in(20)) {
            (true, _) => "Transfer-Encoding: chunked",
            (false, false) => "Content-Length: ",
            // Then the digits are of no length, and the body ends with the connection.
            (false, true) => "X-Length: ",
        };
        Self::add(&mut head, framing);
        self.line_end(&mut rest);
        self.fields(&mut rest);
        self.line_end(&mut rest);
        (head, rest, is_chunked)
    }

    fn chunks(&mut self, out: &mut Vec<u8>, body: &str) {
        let mut left = body;
        while !left.is_empty() {
            let (chunk, rest) = left.split_at(1 + self.below(left.len()));
            let size = match self.below(4) {
                0 => format!("{:X}", chunk.len()),
                1 => format!("0{:x}", chunk.len()),
                _ => format!("{:x}", chunk.len()),
            };
            Self::add(out, &size);
            if self.one_in(8) {
                let more = self.pick(CHUNK_SIZES);
                Self::add(out, more);
            }
            self.line_end(out);
            Self::add(out, chunk);
            self.line_end(out);
            left = rest;
        }
        let end = self.pick(CHUNK_ENDS);
        Self::add(out, end);
    }

    /// Changes a few bytes of every third input.
    fn damage(&mut self, out: &mut Vec<u8>) {
        if !self.one_in(3) {
            return;
        }
        for _ in 0..=self.below(2) {
            let at = self.below(out.len());
            let odd = ODD_BYTES[self.below(ODD_BYTES.len())];
            match self.below(6) {
                _ if out.is_empty() => return,
                0 => out[at] = odd,
                1 => out.insert(at, odd),
                2 => drop(out.remove(at)),
                3 => {
                    let end = (at + 1 + self.below(12)).min(out.len());
                    let copied = out[at..end].to_vec();
                    out.splice(at..at, copied);
                }
                4 => out[at] ^= 1 << self.below(8),
                _ => out.truncate(at),
            }
        }
    }
}
