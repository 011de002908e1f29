//! Lines from the keyboard go to the server, what the server says goes to the screen.
//!
//!     cargo run -p tidegate-client --example chat -- yojimbo token.bin
//!     cargo run -p tidegate-client --example chat -- gaffer 127.0.0.1:40001
//!     cargo run -p tidegate-client --example chat -- rudp 127.0.0.1:40002

use std::error::Error;

use tidegate_client::{Client, Dial, GAFFER_PROTOCOL_ID};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(protocol), Some(target)) = (arguments.next(), arguments.next()) else {
        return Err("usage: chat yojimbo TOKENFILE | gaffer ADDRESS | rudp ADDRESS".into());
    };
    let dial = match protocol.as_str() {
        "yojimbo" => Dial::yojimbo(&std::fs::read(target)?)?,
        "gaffer" => Dial::gaffer(target.parse()?, GAFFER_PROTOCOL_ID),
        "rudp" => Dial::rudp(target.parse()?),
        other => return Err(format!("{other} is no protocol").into()),
    };
    let client = Client::connect(dial).await?;
    println!("connected to {}", client.server());
    // The keyboard has a thread of its own: reading it cannot be interrupted.
    let (typed, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if typed.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        tokio::select! {
            message = client.recv() => match message {
                Ok(message) => println!("< {}", String::from_utf8_lossy(&message.payload)),
                Err(ended) => break println!("over: {ended}"),
            },
            line = lines.recv() => match line {
                Some(line) => client.send(line.as_bytes()).await?,
                None => break println!("over: {}", client.close().await),
            },
        }
    }
    let stats = client.stats();
    println!(
        "rtt {:?} (least {:?}), loss {:.1} %, {} messages resent",
        stats.rtt,
        stats.rtt_min,
        stats.loss * 100.0,
        stats.messages_resent
    );
    Ok(())
}
