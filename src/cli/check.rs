//! `tidegate check`: everything `serve` and `connect` do before they touch the network, and with
//! `--probe` what they need of it.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{input, print, probe};
use crate::config::{Config, Listener, Loaded, Place, Protocol, Refusal, Tunnel, fingerprint};
use crate::control_plane;
use crate::exit::Exit;

#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    /// Configuration file; - reads standard input
    #[arg(short, long, value_name = "FILE", env = "TIDEGATE_CONFIG")]
    config: PathBuf,
    /// Print every effective value and where it was set
    #[arg(long)]
    print: bool,
    /// Also bind the addresses, resolve names and connect to the backends; exit code 69 if any fails
    #[arg(long)]
    probe: bool,
    /// Treat warnings of the probe as failures
    #[arg(long, requires = "probe")]
    strict: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<Exit> {
    match input::load(Some(&args.config), Vec::new()) {
        Ok(loaded) => {
            let findings = match args.probe {
                true => control_plane::run(probe::run(&loaded.config))??,
                false => Vec::new(),
            };
            print(&accepted(args, &loaded, &findings)?)?;
            Ok(probe::exit(&findings, args.strict))
        }
        Err(error) => match error.downcast::<Refusal>() {
            Ok(refusal) if args.json => {
                print(&refused(&refusal))?;
                Ok(Exit::Configuration)
            }
            Ok(refusal) => Err(refusal.into()),
            Err(error) => Err(error),
        },
    }
}

fn accepted(
    args: &CheckArgs,
    loaded: &Loaded,
    findings: &[probe::Finding],
) -> anyhow::Result<String> {
    let mut out = String::new();
    if args.print {
        for value in &loaded.effective {
            let (path, text, source) = (&value.path, &value.value, value.source.to_string());
            if args.json {
                let object = json!({"path": path, "value": text, "source": source});
                writeln!(out, "{object}")?;
            } else {
                writeln!(out, "{:<60} # {source}", format!("{path} = {text}"))?;
            }
        }
    }
    let failed = findings.iter().filter(|it| it.has_failed()).count();
    let warnings = findings.iter().filter(|it| it.warns()).count();
    if args.json {
        for listener in &loaded.config.listeners {
            layout_json(&mut out, "listener", &listener.name, &listener.protocol)?;
        }
        for tunnel in &loaded.config.tunnels {
            layout_json(&mut out, "tunnel", &tunnel.name, &tunnel.protocol)?;
        }
        for finding in findings {
            writeln!(out, "{}", finding.json())?;
        }
        let ok = probe::exit(findings, args.strict) == Exit::Done;
        writeln!(
            out,
            "{}",
            json!({"ok": ok, "warnings": warnings, "config": args.config})
        )?;
        return Ok(out);
    }
    writeln!(out, "{}: good", args.config.display())?;
    summary(&mut out, &loaded.config)?;
    for finding in findings {
        writeln!(out, "  {finding}")?;
    }
    if failed > 0 {
        writeln!(out, "{failed} of {} probes failed", findings.len())?;
    }
    if warnings > 0 {
        writeln!(out, "{warnings} of {} probes warn", findings.len())?;
    }
    Ok(out)
}

/// What an operator wants to see before believing it.
fn summary(out: &mut String, config: &Config) -> std::fmt::Result {
    for listener in &config.listeners {
        let Listener { name, backend, .. } = listener;
        let bind: Vec<_> = listener.bind.iter().map(ToString::to_string).collect();
        let protocol = listener.protocol.label();
        writeln!(
            out,
            "  listener {name}: {protocol} on {}, backend {}",
            bind.join(" "),
            backend.name
        )?;
        if !matches!(listener.protocol, Protocol::Yojimbo(_)) && listener.limits.allow.is_empty() {
            writeln!(
                out,
                "    INSECURE: any source may come, and nothing proves who it is"
            )?;
        }
        secrets(out, &listener.protocol)?;
    }
    for tunnel in &config.tunnels {
        let Tunnel {
            name,
            remote_host,
            remote_port,
            ..
        } = tunnel;
        let protocol = tunnel.protocol.label();
        writeln!(
            out,
            "  tunnel {name}: {protocol} to {remote_host}:{remote_port}"
        )?;
        secrets(out, &tunnel.protocol)?;
    }
    Ok(())
}

/// What a client must share, for programs that compare it.
fn layout_json(out: &mut String, kind: &str, name: &str, protocol: &Protocol) -> std::fmt::Result {
    let Protocol::Yojimbo(yojimbo) = protocol else {
        return Ok(());
    };
    let object = json!({
        kind: name,
        "protocol_id": format!("{:#018x}", yojimbo.netcode.protocol_id),
        "layout": format!("{:016x}", yojimbo.layout.fingerprint()),
        "lines": yojimbo.layout.describe().lines().collect::<Vec<_>>(),
    });
    writeln!(out, "{object}")
}

/// Keys by fingerprint, and the layout that clients must share.
fn secrets(out: &mut String, protocol: &Protocol) -> std::fmt::Result {
    match protocol {
        Protocol::Yojimbo(yojimbo) => {
            for key in &yojimbo.netcode.keys {
                writeln!(out, "    key {}", fingerprint(key))?;
            }
            if yojimbo.netcode.insecure {
                writeln!(
                    out,
                    "    INSECURE: the all-zero key is accepted, anybody can make tokens"
                )?;
            }
            writeln!(out, "    protocol id {:#018x}", yojimbo.netcode.protocol_id)?;
            writeln!(out, "    layout {:016x}", yojimbo.layout.fingerprint())?;
            for line in yojimbo.layout.describe().lines() {
                writeln!(out, "      {line}")?;
            }
            Ok(())
        }
        Protocol::Gaffer(_) | Protocol::Rudp(_) => {
            writeln!(
                out,
                "    no authentication, no encryption: for closed networks"
            )
        }
    }
}

fn refused(refusal: &Refusal) -> String {
    let mut out = String::new();
    for mistake in &refusal.mistakes {
        let place = match &mistake.place {
            Place::File(excerpt) => {
                let (file, line, column) = excerpt.position();
                json!({"file": file, "line": line, "column": column})
            }
            Place::Environment(variable) => json!({"environment": variable}),
            Place::Flag(flag) => json!({"flag": flag}),
            Place::Nowhere => json!({}),
        };
        let object = json!({"error": mistake.what, "help": mistake.help, "place": place});
        out.push_str(&object.to_string());
        out.push('\n');
    }
    out
}
