//! What a request's head must be. hyper lets through what a proxy and a server may read in two ways;
//! here it is refused before hyper sees it.

/// The longest head, in bytes.
pub(super) const HEAD_LIMIT: usize = 16 * 1024;

/// How the body of a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With a last chunk.
    Chunked,
}

/// Where the head ends, once all of it is there: after an empty line.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    while let Some(length) = memchr::memchr(b'\n', &bytes[line_start..]) {
        let line = &bytes[line_start..line_start + length];
        line_start += length + 1;
        // An empty line with a bare LF ends the head too, for `check` to refuse it.
        if line.is_empty() || line == b"\r" {
            return Some(line_start);
        }
    }
    None
}

/// Checks a head, and says how its body ends; or what is wrong, in one sentence.
pub(super) fn check(head: &[u8]) -> Result<Framing, &'static str> {
    let head = head.strip_suffix(b"\r\n\r\n").ok_or("The head's lines do not end in CR LF.")?;
    let head = std::str::from_utf8(head).map_err(|_| "The head is not UTF-8.")?;
    let mut lines = head.split("\r\n");
    check_request_line(lines.next().unwrap_or_default())?;
    let (mut hosts, mut lengths, mut encodings) = (0, Vec::new(), Vec::new());
    for line in lines {
        if line.contains(['\r', '\n', '\0']) {
            return Err("A header line holds a bare CR, LF or NUL.");
        }
        let (name, value) = line.split_once(':').ok_or("A header line has no colon.")?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("A header name holds a character that is not allowed.");
        }
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if name.eq_ignore_ascii_case("content-length") {
            lengths.push(value);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            encodings.push(value);
        }
    }
    if hosts != 1 {
        return Err("A request has exactly one Host.");
    }
    match (&lengths[..], &encodings[..]) {
        ([], []) => Ok(Framing::Length(0)),
        ([length], []) => length_of(length).map(Framing::Length),
        ([], [encoding]) if encoding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        ([], _) => Err("Transfer-Encoding is something other than chunked."),
        (_, []) => Err("A request has at most one Content-Length."),
        _ => Err("A request has Content-Length or Transfer-Encoding, not both."),
    }
}

fn check_request_line(line: &str) -> Result<(), &'static str> {
    if line.contains(['\r', '\n', '\0']) {
        return Err("The request line holds a bare CR, LF or NUL.");
    }
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("The request line is not a method, a path and HTTP/1.1.");
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err("The method holds a character that is not allowed.");
    }
    // Whatever its target: hyper would make a tunnel of the connection.
    if method == "CONNECT" {
        return Err("CONNECT is not served.");
    }
    if !target.starts_with('/') {
        return Err("The target is not a path.");
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("The target holds a character that is not allowed.");
    }
    Ok(())
}

fn length_of(digits: &str) -> Result<u64, &'static str> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let length = all_digits.then(|| digits.parse().ok()).flatten();
    length.ok_or("Content-Length is not a number.")
}

/// A character of a method or of a header name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_heads_pass() {
        let get = b"GET /durable/v1/hello?x=1 HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(check(get), Ok(Framing::Length(0)));
        let post = b"POST / HTTP/1.1\r\nhost:\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(check(post), Ok(Framing::Length(12)));
        let chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n";
        assert_eq!(check(chunked), Ok(Framing::Chunked));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let heads = [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nx: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rx: y\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /é HTTP/1.1\r\nHost: a\r\n\r\n",
        ];
        for head in heads {
            assert!(check(head.as_bytes()).is_err(), "{head:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = end_of_head(&bytes);
            let _ = check(&bytes);
        }
    }
}
