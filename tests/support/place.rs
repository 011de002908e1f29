//! Where a test's programs run.

use std::path::{Path, PathBuf};

/// A directory of one test's own; gone when dropped.
pub struct Place(PathBuf);

impl Place {
    /// `name` tells it from those of this program's other tests.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// A file there, or the place for one.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Puts a file there.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file can be written");
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
