//! Files as processes leave them, and as nobody should.

use tidegate_proto::yojimbo::netcode::RosterParams;

use super::file::Contents;
use super::*;
use crate::capacity::Capacity;

const BOOTED: u64 = 1_000;

struct Scene {
    directory: StateDirectory,
    board: Arc<Board>,
}

impl Scene {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("tidegate-history-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self {
            directory: StateDirectory {
                path,
                booted: BOOTED,
                claims: Arc::default(),
            },
            board: Arc::new(Board::new(at(0), Capacity::new(64, 0).into())),
        }
    }

    fn open(&self, now: u64) -> (TokenHistory, Past) {
        TokenHistory::open(&self.directory, "game", at(now), self.board.clone())
    }

    /// As another process has it: its locks are other descriptions of the same files.
    fn directory_of_another(&self) -> StateDirectory {
        StateDirectory {
            claims: Arc::default(),
            ..self.directory.clone()
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path.join("game.tokens")
    }

    fn failures(&self) -> u64 {
        self.board.snapshot(at(0)).process.token_history_failures
    }

    fn given_up(&self) -> usize {
        self.board.snapshot(at(0)).process.token_histories_given_up
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory.path).ok();
    }
}

fn at(unix_secs: u64) -> Now {
    Now {
        mono: Timestamp::from_millis(unix_secs * 1_000),
        unix_secs,
    }
}

fn token(number: u32, end: u64) -> UsedToken {
    let mut tag = [0; 16];
    tag[..4].copy_from_slice(&number.to_le_bytes());
    UsedToken { tag, end }
}

#[test]
fn what_one_process_used_the_next_one_knows() {
    let scene = Scene::new("next");
    let (mut history, past) = scene.open(2_000);
    assert_eq!(past, Past::unknown(2_000));
    history.record(at(2_001), token(1, 2_031));
    history.record(at(2_002), token(2, 2_010));
    drop(history);
    let mode = fs::metadata(scene.file()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);

    let (mut history, past) = scene.open(2_015);
    assert_eq!(
        past.since, 2_000,
        "nothing was missed since the first start"
    );
    assert_eq!(past.used, [token(1, 2_031)], "the other one has expired");
    history.record(at(2_016), token(3, 2_046));
    drop(history);

    let (_, past) = scene.open(2_016);
    assert_eq!(
        (past.since, past.used),
        (2_000, vec![token(1, 2_031), token(3, 2_046)])
    );
    assert_eq!(scene.failures(), 0);
}

/// Numbers of challenges are counted from the second of the start: two starts in one second would
/// seal two of them under one nonce.
#[test]
fn two_starts_never_have_the_same_second() {
    let scene = Scene::new("second");
    let starts: Vec<u64> = (0..3).map(|_| scene.open(2_000).1.started).collect();
    assert_eq!(starts, [2_000, 2_001, 2_002]);
    assert_eq!(scene.open(2_100).1.started, 2_100);
}

#[test]
fn another_boot_s_file_admits_nobody_and_refuses_what_it_knows() {
    let scene = Scene::new("boot");
    scene.open(2_000).0.record(at(2_001), token(1, 2_031));
    for booted in [BOOTED + 3, BOOTED - 3] {
        let later = StateDirectory {
            booted,
            ..scene.directory.clone()
        };
        let before = fs::read(scene.file()).unwrap();
        let (_, past) = TokenHistory::open(&later, "game", at(2_010), scene.board.clone());
        assert_eq!((past.since, past.used.len()), (2_010, 1));
        fs::write(scene.file(), before).unwrap();
    }
    let slewed = StateDirectory {
        booted: BOOTED + 2,
        ..scene.directory.clone()
    };
    let (_, past) = TokenHistory::open(&slewed, "game", at(2_010), scene.board.clone());
    assert_eq!(past.since, 2_000);
}

/// Two boots that are not known look the same.
#[test]
fn where_the_boot_is_not_known_no_file_admits_anybody() {
    let scene = Scene::new("no-boot");
    let unknown = StateDirectory {
        booted: 0,
        ..scene.directory.clone()
    };
    for now in [2_000, 2_010] {
        let (mut history, past) =
            TokenHistory::open(&unknown, "game", at(now), scene.board.clone());
        assert_eq!(past.since, now);
        history.record(at(now), token(1, now + 30));
    }
}

#[test]
fn damage_is_counted_and_stops_no_start() {
    let scene = Scene::new("damage");
    let (mut history, _) = scene.open(2_000);
    history.record(at(2_001), token(1, 2_031));
    history.record(at(2_001), token(2, 2_031));
    drop(history);
    let good = fs::read(scene.file()).unwrap();
    let mut flipped = good.clone();
    flipped[HEADER_BYTES + 3] ^= 4;
    let cases: [(&str, Vec<u8>, usize); 4] = [
        ("a record with a flipped bit", flipped, 1),
        ("nothing at all", Vec::new(), 0),
        ("something else", b"[listener.game]\n".repeat(9), 0),
        ("too much", [good.clone(), vec![0; 9 << 20]].concat(), 0),
    ];
    for (count, (what, bytes, known)) in (1..).zip(cases) {
        fs::write(scene.file(), bytes).unwrap();
        let (_, past) = scene.open(2_010);
        assert_eq!((past.since, past.used.len()), (2_010, known), "{what}");
        assert_eq!(scene.failures(), count, "{what}");
        assert_eq!(
            scene.open(2_011).1.since,
            2_010,
            "{what}: what replaced it is good"
        );
    }
    fs::write(scene.file(), &good[..good.len() - 5]).unwrap();
    let (_, past) = scene.open(2_010);
    assert_eq!(
        (past.since, past.used.len()),
        (2_000, 1),
        "a cut tail is no damage"
    );
}

#[test]
fn a_link_is_not_followed_and_a_pipe_not_waited_for() {
    let scene = Scene::new("link");
    let elsewhere = scene.directory.path.join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    std::os::unix::fs::symlink(&elsewhere, scene.file()).unwrap();
    scene.open(2_000).0.record(at(2_001), token(1, 2_031));
    assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
    fs::remove_file(scene.file()).unwrap();
    let in_place = |name: &str| scene.directory.path.join(name);
    std::os::unix::fs::symlink(&elsewhere, in_place("link.lock")).unwrap();
    assert!(scene.directory.claim("link").is_err());
    let made = std::process::Command::new("mkfifo")
        .args([scene.file(), in_place("pipe.lock")])
        .status();
    assert!(made.unwrap().success());
    assert_eq!(scene.open(2_002).1.since, 2_002);
    assert!(scene.directory.claim("pipe").is_err());
}

/// Another process could not write it either, so it may be old.
#[test]
fn a_file_that_cannot_be_written_anew_is_not_believed() {
    let scene = Scene::new("old");
    scene.open(2_000).0.record(at(2_001), token(1, 2_031));
    let in_the_way = scene.file().with_extension("tokens.new");
    fs::create_dir(&in_the_way).unwrap();
    let (mut history, past) = scene.open(2_010);
    assert_eq!((past.since, past.used.len()), (2_010, 1));
    fs::remove_dir(in_the_way).unwrap();
    history.record(at(2_020), token(2, 2_050));
    let (_, past) = scene.open(2_021);
    assert_eq!((past.since, past.used.len()), (2_010, 2), "nor later");
}

/// A file with a hole would be believed, so it goes, and comes back whole.
#[test]
fn a_write_that_fails_takes_the_file_away_until_it_can_be_whole() {
    let scene = Scene::new("full");
    let (mut history, _) = scene.open(2_000);
    history.record(at(2_001), token(1, 2_031));
    // Every write to this file says that the disk is full.
    history.file = Some(File::options().append(true).open("/dev/full").unwrap());
    fs::remove_file(scene.file()).unwrap();
    std::os::unix::fs::symlink("/dev/full", scene.file()).unwrap();
    history.record(at(2_002), token(2, 2_032));
    assert!(!scene.file().is_symlink(), "it is not left to be believed");
    history.record(at(2_003), token(3, 2_033));
    assert!(!scene.file().exists(), "tried again too soon");
    assert_eq!((scene.failures(), scene.given_up()), (1, 1));
    history.record(at(2_012), token(4, 2_042));
    assert_eq!(scene.given_up(), 0);
    drop(history);
    let (_, past) = scene.open(2_013);
    assert_eq!(
        (past.since, past.used.len()),
        (2_000, 4),
        "what was not written was remembered"
    );
}

#[test]
fn a_directory_that_is_not_there_is_no_obstacle() {
    let scene = Scene::new("nowhere");
    let nowhere = StateDirectory {
        path: scene.directory.path.join("missing"),
        ..scene.directory.clone()
    };
    let (mut history, past) = TokenHistory::open(&nowhere, "game", at(2_000), scene.board.clone());
    history.record(at(2_001), token(1, 2_031));
    assert_eq!((past.since, scene.failures()), (2_000, 1));
    history.record(at(2_010), token(2, 2_040));
    assert_eq!(scene.failures(), 2, "tried again after a while");
    assert_eq!(scene.given_up(), 1);
    drop(history);
    assert_eq!(scene.given_up(), 0, "its listener went");
}

/// The file itself was not looked at: it is neither damaged nor what keeps the process from it, and may be another's.
#[test]
fn a_lock_that_cannot_be_opened_is_named() {
    let scene = Scene::new("unopened");
    fs::create_dir(scene.directory.path.join("game.lock")).unwrap();
    fs::write(scene.file(), "precious").unwrap();
    let error = scene.directory.claim("game").unwrap_err();
    assert!(error.to_string().contains("game.lock"), "{error}");
    assert_eq!(Verdict::of_unclaimed(&error).label(), "no lock");
    let (_, past) = scene.open(2_000);
    assert_eq!(past, Past::unknown(2_000));
    assert_eq!(scene.failures(), 1, "told once");
    assert_eq!(fs::read(scene.file()).unwrap(), b"precious");
}

#[test]
fn somebody_else_s_file_is_noticed() {
    let scene = Scene::new("two");
    let (mut first, _) = scene.open(2_000);
    let (mut second, _) = scene.open(2_001);
    second.record(at(2_002), token(1, 2_032));
    first.record(at(2_002), token(2, 2_032));
    assert_eq!(scene.failures(), 1);
}

/// Each would write what it knows over what the other does, and a start would believe that.
#[test]
fn a_process_that_runs_shares_its_file_with_no_other() {
    let scene = Scene::new("shared");
    let (mut first, _) = scene.open(2_000);
    first.record(at(2_001), token(1, 2_031));
    let elsewhere = scene.directory_of_another();
    let open = |now| TokenHistory::open(&elsewhere, "game", at(now), scene.board.clone());
    let (mut second, past) = open(2_002);
    assert_eq!((past.since, past.used.len()), (2_002, 0));
    assert_eq!(scene.failures(), 1, "told once");
    second.record(at(2_003), token(2, 2_033));
    second.record(at(2_014), token(3, 2_044));
    first.record(at(2_015), token(4, 2_045));
    assert_eq!(
        scene.failures(),
        2,
        "the second one tried again, and the first one lost nothing"
    );
    let (since, used) = (2_000, vec![token(1, 2_031), token(4, 2_045)]);
    let contents = past::read(&scene.file()).unwrap();
    assert_eq!((contents.header.since, contents.used), (since, used));

    // It begins a file when the first one has ended, and vouches for nothing before.
    drop(first);
    scene.directory.claims.lock().unwrap().clear();
    second.record(at(2_026), token(5, 2_056));
    let (_, past) = open(2_030);
    assert_eq!((past.since, past.used.len()), (2_027, 3));
}

/// A lock without a name keeps nobody out, so it is taken again when the file is written as a whole.
#[test]
fn a_lock_that_was_tidied_away_is_taken_again() {
    let scene = Scene::new("tidied");
    let (mut first, _) = scene.open(2_000);
    fs::remove_file(scene.directory.path.join("game.lock")).unwrap();
    let count = RECORDS_SPARE as u32 + 1;
    for number in 0..count {
        first.record(at(2_001), token(number, 2_031));
    }
    let elsewhere = scene.directory_of_another();
    let (_, past) = TokenHistory::open(&elsewhere, "game", at(2_002), scene.board.clone());
    assert_eq!(past, Past::unknown(2_002));
    let contents = past::read(&scene.file()).unwrap();
    assert_eq!(contents.used.len(), count as usize, "nobody wrote over it");
}

/// A day of players, 40 a second, each with a token that lives 30 s.
#[test]
fn the_file_keeps_within_its_bound() {
    let scene = Scene::new("bound");
    let (mut history, _) = scene.open(2_000);
    let mut largest = 0;
    for number in 0..40 * 1_000 {
        let now = 2_000 + u64::from(number) / 40;
        history.record(at(now), token(number, now + 30));
        if number % 100 == 0 {
            largest = largest.max(fs::metadata(scene.file()).unwrap().len());
        }
    }
    let live = 40 * 31;
    assert!(
        largest <= (HEADER_BYTES + RECORD_BYTES * (2 * live + RECORDS_SPARE)) as u64,
        "{largest}"
    );
    drop(history);
    assert_eq!(scene.open(2_999).1.used.len(), 40 * 30);
}

/// Files that are whole and say what cannot be, or more than a roster keeps.
#[test]
fn what_cannot_be_is_not_believed() {
    let judged = |since, count| {
        let contents = Contents {
            header: Header {
                since,
                started: since,
                booted: BOOTED,
            },
            used: (0..count).map(|number| token(number, 9_000)).collect(),
            damaged: 0,
        };
        let (past, verdict) = past::judge(Ok(contents), at(2_000), BOOTED);
        assert_eq!(past.used.len(), count as usize, "what was used is refused");
        (past.since, verdict.label())
    };
    let most = RosterParams::default().history as u32;
    assert_eq!(judged(1_999, most), (1_999, "complete"));
    assert_eq!(judged(1_999, most + 1), (2_000, "more than fits"));
    assert_eq!(judged(2_001, 1), (2_000, "another boot's"));
}

/// While nothing can be written, memory is all there is, and no reason to fill it.
#[test]
fn without_a_file_expired_tokens_are_forgotten() {
    let scene = Scene::new("memory");
    let nowhere = StateDirectory {
        path: scene.directory.path.join("missing"),
        ..scene.directory.clone()
    };
    let (mut history, _) = TokenHistory::open(&nowhere, "game", at(2_000), scene.board.clone());
    for number in 1..RECORDS_SPARE as u32 {
        history.record(at(2_001), token(number, 2_002));
    }
    history.record(at(2_002), token(7, 2_032));
    assert_eq!(history.records, [token(7, 2_032)]);
}

#[test]
fn a_slow_write_is_a_failed_one() {
    assert!(check_pace(SLOW).is_ok());
    assert!(check_pace(SLOW + Duration::from_nanos(1)).is_err());
}
