//! How the bytes of a connection are parted changes nothing in what hyper is given of them.
#![no_main]

// The files themselves, because they are private to the crate. Each finds the other as in its own
// room.
#[allow(dead_code)]
#[path = "../../../collie/serve/guard.rs"]
mod guard;
#[allow(dead_code)]
#[path = "../../../collie/serve/head.rs"]
mod head;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn passed(bytes: &[u8], part: usize) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (mut writer, reader) = tokio::io::duplex(part);
        let mut guard = guard::Guard::new(reader);
        let write = async {
            writer.write_all(bytes).await.unwrap();
            drop(writer);
            std::future::pending::<()>().await;
        };
        let mut passed = Vec::new();
        tokio::select! {
            read = guard.read_to_end(&mut passed) => drop(read.unwrap()),
            () = write => {}
        }
        passed
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((part, bytes)) = bytes.split_first() else { return };
    assert_eq!(passed(bytes, usize::from(*part).max(1)), passed(bytes, 1 << 20));
});
