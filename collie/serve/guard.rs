//! Stands between a connection and hyper: whole heads that were checked, bodies by the same
//! framing, and deadlines.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::head::{Framing, HEAD_LIMIT, check, end_of_head};

/// How long a head may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection may be idle between requests.
const IDLE_PATIENCE: Duration = Duration::from_secs(60);
/// How long the other side may not read an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// The header of the request that takes the place of a refused one. Whoever sends it is refused.
pub(super) const REFUSED: &str = "x-durable-refused";

/// A connection of which hyper sees only heads that passed. In the place of one that did not, hyper
/// reads a request that says so, and then the end: so the refusal is answered in its turn, after the
/// answers to the requests before it, and the connection is closed.
#[derive(Debug)]
pub(super) struct Guard<S> {
    stream: S,
    place: Place,
    /// What was read and not yet looked at.
    raw: Vec<u8>,
    /// What hyper may read.
    passed: Vec<u8>,
    /// How much of `passed` hyper has read.
    taken: usize,
    read_deadline: Pin<Box<Sleep>>,
    /// Whether `read_deadline` is that of a head, not that of an idle connection.
    head_begun: bool,
    write_deadline: Option<Pin<Box<Sleep>>>,
}

/// Where in the stream of requests the next raw byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Body {
        left: u64,
    },
    Chunk(ChunkPlace),
    /// A request was refused, or the other side has ended: nothing more is passed.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkPlace {
    Size,
    /// The data and the CR LF after it.
    Data {
        left: u64,
    },
    Trailer,
}

impl<S> Guard<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            place: Place::Head,
            raw: Vec::new(),
            passed: Vec::new(),
            taken: 0,
            read_deadline: Box::pin(sleep_until(Instant::now() + HEAD_PATIENCE)),
            head_begun: true,
            write_deadline: None,
        }
    }

    fn refuse(&mut self, status: u16, why: &str) {
        self.place = Place::End;
        self.raw.clear();
        self.passed.extend_from_slice(
            format!("GET / HTTP/1.1\r\nhost: refused\r\n{REFUSED}: {status} {why}\r\n\r\n")
                .as_bytes(),
        );
    }

    /// Moves from `raw` to `passed` what may pass.
    fn sort(&mut self) {
        while !self.raw.is_empty() {
            let before = (self.raw.len(), self.place);
            match self.place {
                Place::Head => self.sort_head(),
                Place::Body { left } => {
                    let left = left - self.pass(left);
                    self.place = if left == 0 { Place::Head } else { Place::Body { left } };
                }
                Place::Chunk(place) => self.sort_chunk(place),
                Place::End => self.raw.clear(),
            }
            if before == (self.raw.len(), self.place) {
                return;
            }
        }
    }

    /// Sets the deadline for the head that has begun, or for one to begin.
    fn expect_head(&mut self, begun: bool) {
        if begun != self.head_begun {
            let patience = if begun { HEAD_PATIENCE } else { IDLE_PATIENCE };
            self.read_deadline.as_mut().reset(Instant::now() + patience);
            self.head_begun = begun;
        }
    }

    /// Passes at most `most` raw bytes, and says how many.
    fn pass(&mut self, most: u64) -> u64 {
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(self.raw.len());
        self.passed.extend(self.raw.drain(..count));
        count as u64
    }

    fn sort_head(&mut self) {
        let end = end_of_head(&self.raw);
        if end.unwrap_or(self.raw.len()) > HEAD_LIMIT {
            return self.refuse(413, "The head is over 16 KiB long.");
        }
        let Some(end) = end else { return };
        match check(&self.raw[..end]) {
            Ok(framing) => {
                self.pass(end as u64);
                self.place = match framing {
                    Framing::Length(0) => Place::Head,
                    Framing::Length(left) => Place::Body { left },
                    Framing::Chunked => Place::Chunk(ChunkPlace::Size),
                };
                self.expect_head(false);
            }
            Err(why) => self.refuse(400, why),
        }
    }

    fn sort_chunk(&mut self, place: ChunkPlace) {
        if let ChunkPlace::Data { left } = place {
            let left = left - self.pass(left);
            let next = if left == 0 { ChunkPlace::Size } else { ChunkPlace::Data { left } };
            self.place = Place::Chunk(next);
            return;
        }
        // hyper refuses what is wrong in a chunk; here it only matters where the next head begins,
        // and what is not plain ends the connection.
        let Some(end) = memchr::memchr(b'\n', &self.raw) else {
            if self.raw.len() > HEAD_LIMIT {
                self.broken_chunk();
            }
            return;
        };
        let line = &self.raw[..end];
        let next = match (place, line.strip_suffix(b"\r")) {
            (ChunkPlace::Size, Some(line)) => chunk_size(line).map(|size| match size {
                0 => Place::Chunk(ChunkPlace::Trailer),
                // With the CR LF after the data.
                size => Place::Chunk(ChunkPlace::Data { left: size + 2 }),
            }),
            (ChunkPlace::Trailer, Some([])) => Some(Place::Head),
            (ChunkPlace::Trailer, Some(_)) => Some(Place::Chunk(ChunkPlace::Trailer)),
            _ => None,
        };
        match next {
            Some(next) => {
                self.pass(end as u64 + 1);
                self.place = next;
            }
            None => self.broken_chunk(),
        }
    }

    /// hyper is to see the body break off as broken, not as complete.
    fn broken_chunk(&mut self) {
        self.passed.extend_from_slice(b"broken\r\n");
        self.raw.clear();
        self.place = Place::End;
    }

    fn give(&mut self, buffer: &mut ReadBuf<'_>) {
        let rest = &self.passed[self.taken..];
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.taken += count;
        if self.taken == self.passed.len() {
            self.passed.clear();
            self.taken = 0;
        }
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let digits = line.split(';').next()?.trim_end_matches([' ', '\t']);
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

impl<S: AsyncRead + Unpin> AsyncRead for Guard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let guard = &mut *self;
        loop {
            if guard.taken < guard.passed.len() {
                guard.give(buffer);
                return Poll::Ready(Ok(()));
            }
            if guard.place == Place::End {
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; 8 * 1024];
            let mut read = ReadBuf::new(&mut chunk);
            match Pin::new(&mut guard.stream).poll_read(context, &mut read) {
                Poll::Ready(result) => result?,
                Poll::Pending => {
                    // The body has its own deadline, with whoever collects it.
                    if guard.place != Place::Head {
                        return Poll::Pending;
                    }
                    ready!(guard.read_deadline.as_mut().poll(context));
                    if guard.raw.is_empty() {
                        guard.place = Place::End;
                    } else {
                        guard.refuse(400, "The head was not complete within 5 s.");
                    }
                    continue;
                }
            }
            if read.filled().is_empty() {
                guard.place = Place::End;
                // Half a head: hyper is to see that the connection broke off.
                guard.passed.append(&mut guard.raw);
                continue;
            }
            guard.raw.extend_from_slice(read.filled());
            guard.sort();
            if guard.place == Place::Head && !guard.raw.is_empty() {
                guard.expect_head(true);
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> Guard<S> {
    /// An answer that nobody reads holds a connection, and at last the whole listen queue.
    fn within_deadline<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_deadline = None;
            return written;
        }
        let deadline = self
            .write_deadline
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + WRITE_PATIENCE)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_deadline(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.within_deadline(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// What hyper would read of `bytes`, that come in parts.
    fn passed(bytes: &[u8], part: usize) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut writer, reader) = tokio::io::duplex(part);
            let mut guard = Guard::new(reader);
            let write = async {
                writer.write_all(bytes).await.unwrap();
                drop(writer);
                std::future::pending::<()>().await;
            };
            let mut passed = Vec::new();
            // After a refusal nothing more is read, so the writing need not end.
            tokio::select! {
                read = guard.read_to_end(&mut passed) => drop(read.unwrap()),
                () = write => {}
            }
            passed
        })
    }

    const PLAIN: &[u8] = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc\
        POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
        3;a=b\r\nabc\r\n0\r\nTrailer: x\r\n\r\nGET /c HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn what_is_plain_passes_as_it_is_in_parts_of_any_size() {
        for part in 1..PLAIN.len() {
            assert_eq!(passed(PLAIN, part), PLAIN, "in parts of {part}");
        }
    }

    #[test]
    fn nothing_passes_after_a_refusal() {
        let bytes = [PLAIN, b"GET /d HTTP/1.1\r\n\r\n", PLAIN].concat();
        for part in [1, 7, 4096] {
            let passed = String::from_utf8(passed(&bytes, part)).unwrap();
            let rest = passed.strip_prefix(std::str::from_utf8(PLAIN).unwrap()).unwrap();
            assert!(rest.contains(REFUSED) && rest.ends_with("\r\n\r\n"), "{rest}");
            assert!(!rest.contains("/d") && !rest.contains("/a"), "{rest}");
        }
    }

    proptest! {
        #[test]
        fn how_bytes_are_parted_changes_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            cut in 0..PLAIN.len(),
            part in 1_usize..50,
        ) {
            // Something plain, broken off anywhere, and then anything.
            let bytes = [&PLAIN[..cut], &bytes].concat();
            prop_assert_eq!(passed(&bytes, part), passed(&bytes, 4096));
        }
    }
}
