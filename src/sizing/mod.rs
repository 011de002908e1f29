//! What the configuration lets the process take, beside what it may: the sums of docs/OPERATIONS.md,
//! "Sizing".

pub mod cpu;
pub mod disk;
pub mod file_size;
pub mod memory;
pub mod open_files;
pub mod threads;

use crate::config::Config;

/// Says at the start what may run short.
pub fn warn(config: &Config) {
    if let Some(shortage) = memory::Shortage::find(config) {
        shortage.warn();
    }
    if let Some(shortage) = open_files::Shortage::find(config) {
        shortage.warn();
    }
}

/// Sessions of listeners and of tunnels that may come, each kind by itself.
fn peers_max(config: &Config) -> [usize; 2] {
    let most = config.runtime.max_peers;
    let served: usize = config.listeners.iter().map(|it| it.max_peers).sum();
    let dialled: usize = config.tunnels.iter().map(|it| it.max_streams).sum();
    [served.min(most), dialled.min(most)]
}
