//! The C library as its users meet it: real programs in C, C++, Python and C#, compiled and run here
//! against the built `serve` with a TCP echo server behind it and 10 % loss in between.
//!
//! C and C++ run under AddressSanitizer. What this machine has no compiler for is left out.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot get a socket has failed"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::lossy::{Lossy, bad_network};
use support::place::Place;
use support::program::Program;
use support::token::mint;
use support::{PATIENCE, echo_server, skipped};

/// A server behind a bad network, and a token for it.
struct Game {
    _serve: Program,
    lossy: Lossy,
    token: PathBuf,
}

impl Game {
    fn start(place: &Place) -> Self {
        let serve = place.serve("yojimbo", "u16be", echo_server(), &[]);
        let lossy = Lossy::start(serve.address(), bad_network(), 5);
        let minted = mint(place, 7, &[lossy.address], PATIENCE);
        let token = place.path("token.bin");
        std::fs::write(&token, &*minted.to_bytes()).unwrap();
        Self {
            _serve: serve,
            lossy,
            token,
        }
    }
}

/// Where cargo put the library: beside this test.
fn library(name: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().with_file_name(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/clients")
        .join(name)
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skipped(&format!("there is no {program} here to test its binding"));
    }
    found
}

/// Compiles an example against the static library, with the sanitizer where there is one.
fn compile(place: &Place, compiler: &str, arguments: &[&str], source: &str) -> PathBuf {
    let out = place.path("program");
    let build = |more: &[&str]| {
        Command::new(compiler)
            .args(arguments)
            .args(["-Wall", "-Wextra", "-Werror", "-g", "-o"])
            .arg(&out)
            .arg(example(source))
            .args(more)
            .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/capi/include")])
            .arg(library("libtidegate_c.a"))
            .args(["-lpthread", "-ldl", "-lm"])
            .output()
            .unwrap()
    };
    if build(&["-fsanitize=address,undefined"]).status.success() {
        return out;
    }
    skipped(&format!(
        "{compiler} has no AddressSanitizer here to run {source} under"
    ));
    let built = build(&[]);
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler} {source}:\n{said}");
    out
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a program that plays a game, and proves that the network was bad.
fn play(place: &Place, command: &mut Command) {
    let game = Game::start(place);
    run(command.arg(&game.token));
    assert!(game.lossy.lost() > 5, "the network was too kind");
}

const C: [&str; 2] = ["-std=c99", "-D_DEFAULT_SOURCE"];

#[test]
fn a_c_program_plays() {
    let place = Place::new("capi-c");
    let program = compile(&place, "cc", &C, "echo.c");
    play(&place, &mut Command::new(program));
}

#[test]
fn a_c_program_plays_over_a_transport_of_its_own() {
    let place = Place::new("capi-transport");
    let program = compile(&place, "cc", &C, "transport.c");
    play(&place, &mut Command::new(program));
}

#[test]
fn misuse_is_an_error_and_not_a_crash() {
    let place = Place::new("capi-misuse");
    let program = compile(&place, "cc", &C, "misuse.c");
    run(&mut Command::new(program));
}

#[test]
fn a_cpp_program_plays() {
    if has("c++") {
        let place = Place::new("capi-cpp");
        let program = compile(&place, "c++", &["-std=c++17"], "echo.cpp");
        play(&place, &mut Command::new(program));
    }
}

#[test]
fn a_python_program_plays() {
    if has("python3") {
        let place = Place::new("capi-python");
        let mut command = Command::new("python3");
        command
            .arg(example("echo.py"))
            .arg(library("libtidegate_c.so"));
        play(&place, &mut command);
    }
}

/// Runs a script that finds in `sys.argv` where the binding is, and the library.
fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-B", "-c", script])
        .arg(example("echo.py").parent().unwrap())
        .arg(library("libtidegate_c.so"));
    command
}

/// A binding's `send` says "not now" only of what may leave later: a game that waits for it would wait for ever.
#[test]
fn a_binding_says_what_will_never_leave() {
    if has("python3") {
        let place = Place::new("capi-never");
        let game = Game::start(&place);
        let script = "
import sys
sys.path.insert(0, sys.argv[1])
import echo
client = echo.Client(sys.argv[2], open(sys.argv[3], 'rb').read())
assert not client.send(b'not yet')
client.finish()
try:
    client.send(b'too late')
except RuntimeError:
    sys.exit(0)
sys.exit('it was told to try again')
";
        run(python(script).arg(&game.token));
    }
}

/// A library that the binding does not fit would write beyond its structures: nothing is called in it.
#[test]
fn a_binding_is_not_used_with_another_library() {
    if has("python3") {
        let script = "
import sys
sys.path.insert(0, sys.argv[1])
import echo
echo.ABI += 1
try:
    echo.Client(sys.argv[2], b'')
except RuntimeError as error:
    sys.exit('another tidegate' not in str(error) and str(error))
sys.exit('it was used')
";
        run(&mut python(script));
    }
}

/// What went wrong comes to the game with the call that it went wrong in.
#[test]
fn a_binding_keeps_no_error_to_itself() {
    if has("python3") {
        let place = Place::new("capi-errors");
        let game = Game::start(&place);
        let script = "
import sys
sys.path.insert(0, sys.argv[1])
import echo
client = echo.Client(sys.argv[2], open(sys.argv[3], 'rb').read())
client.close()
for call in client.update, client.receive, client.flush, client.finish, client.ended, client.stats:
    try:
        call()
    except RuntimeError:
        continue
    sys.exit(f'{call.__name__} said nothing of a client that was freed')
";
        run(python(script).arg(&game.token));
    }
}

#[test]
fn a_csharp_program_plays() {
    if has("mcs") && has("mono") {
        let place = Place::new("capi-csharp");
        let program = place.path("Echo.exe");
        run(Command::new("mcs")
            .arg(format!("-out:{}", program.display()))
            .arg(example("Echo.cs")));
        let directory = library("libtidegate_c.so").parent().unwrap().to_owned();
        let mut command = Command::new("mono");
        command.arg(program).env("LD_LIBRARY_PATH", directory);
        play(&place, &mut command);
    }
}
