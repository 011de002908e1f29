//! Stays connected: a fresh token for each session from a command that prints one.
//!
//!     cargo run -p tidegate-client --example reconnect -- \
//!         "tidegate token mint --client-id 7 --server 127.0.0.1:40000 --key netcode.key"

use std::error::Error;
use std::process::Command;

use tidegate_client::{Backoff, Dial, Redial};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let command = std::env::args()
        .nth(1)
        .ok_or("usage: reconnect TOKENCOMMAND")?;
    let mut redial = Redial::new(Backoff::default(), async || mint(&command));
    loop {
        let client = redial.connect().await?;
        println!("connected to {}", client.server());
        client.send(b"here I am").await?;
        let ended = loop {
            match client.recv().await {
                Ok(message) => println!("< {}", String::from_utf8_lossy(&message.payload)),
                Err(ended) => break ended,
            }
        };
        println!("over: {ended}; again");
    }
}

/// In a game this asks the matchmaker.
fn mint(command: &str) -> Result<Dial, Box<dyn Error>> {
    let output = Command::new("/bin/sh").args(["-c", command]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(Dial::yojimbo(&output.stdout)?)
}
