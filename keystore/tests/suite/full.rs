//! A full disk.

use std::{path::Path, process::Command};

use bytes::Bytes;
use cloakwork_keystore::{Digest, Error};

use crate::{
    home::{Home, read, tenant},
    objects::list,
};

/// A small file system in memory, unmounted on drop.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// Returns `None` if this user may not mount.
    fn mount(path: &'a Path) -> Option<Self> {
        let arguments = ["-t", "tmpfs", "-o", "size=8m", "cloakwork-test"];
        let mounted = Command::new("mount").args(arguments).arg(path).output().is_ok_and(|out| out.status.success());
        mounted.then_some(Self(path))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // The unmount is lazy, because the database may still be open when a test fails.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_only_uploads() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    let Some(_disk) = SmallDisk::mount(&path) else {
        assert!(std::env::var_os("CI").is_none(), "this test must be able to mount a tmpfs where CI is set");
        eprintln!("SKIPPED: a full disk cannot be tested, as this user may not mount a tmpfs");
        return;
    };
    let home = Home::at(directory);
    let keystore = home.open().await;
    let small = list(1_000, 1);
    let kept = home.upload(&keystore, &small).await.expect("fits").digest;
    let large = list(3_100, 2);
    let digest = Digest::of(&large);
    assert_eq!(home.upload(&keystore, &large).await, Err(Error::StorageFull));
    // The stored blob can be read and looked up, and so can the upload.
    assert_eq!(read(&keystore, &kept, 0).await.expect("there"), small);
    keystore.blob(&tenant(), &kept).await.expect("there");
    assert!(keystore.list_keys(&tenant(), None, 0).await.expect("listed").keys.is_empty());
    let filler = path.join("filler");
    fill(&filler);
    assert_eq!(read(&keystore, &kept, 7).await.expect("there"), small.slice(7..));
    assert_eq!(keystore.put(&tenant(), list(500, 3), None).await, Err(Error::StorageFull));
    // With free space again, the upload continues where it was, without a repair.
    std::fs::remove_file(&filler).expect("there");
    keystore.delete(&tenant(), &kept).await.expect("free");
    let upload = home.begin(&keystore, &digest).await.expect("open");
    assert!(upload.committed_bytes > 1_000_000, "{}", upload.committed_bytes);
    let blob = home.upload(&keystore, &large).await.expect("fits now");
    assert_eq!(read(&keystore, &blob.digest, 0).await.expect("there"), large);
    home.close().await;
}

fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).expect("one more file");
    let piece = Bytes::from(vec![0; 4096]);
    while std::io::Write::write_all(&mut file, &piece).is_ok() {}
}
