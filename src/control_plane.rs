//! What is not the data path: names, checks, commands and signals, on the thread that began.

use std::io;

use tokio::runtime::Builder;

/// Runs this to its end. What still blocks then is left behind: to look a name up may take half a minute, and nobody
/// waits for the answer any more.
pub fn run<T>(control: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(control);
    runtime.shutdown_background();
    Ok(outcome)
}
