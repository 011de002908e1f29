//! No copy of this memory on a disk: it holds keys.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Forbids core dumps and, with them, other processes of this user looking in. Docs:
/// docs/THREAT-MODEL.md.
pub fn forbid() {
    let not_dumpable = || set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = set_no_core().and_then(|()| not_dumpable()) {
        tracing::warn!(event = "core_dumps", %error, "a core dump would hold keys");
    }
}

fn set_no_core() -> Result<(), Errno> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)
}
