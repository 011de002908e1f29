//! Where the log goes may be slow, stuck, or full: nobody who logs waits for it, and what is lost is counted.

use super::*;

/// A thread that logs never waits for the one that reads the log.
#[test]
fn a_stuck_reader_costs_lines_not_time() {
    struct Stuck(mpsc::Receiver<()>);
    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Returns when the test is over.
            self.0.recv().ok();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (release, held) = mpsc::channel::<()>();
    let sink = Box::new(Stuck(held));
    let (subscriber, logging) = build(&log("debug", LONG), Style::Text, false, sink).unwrap();
    let text = "0123456789".repeat(40);
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..10_000 {
            tracing::debug!(text, "a line");
        }
    });
    // So much waits, and one line may be on its way out.
    let kept = (10_000 - logging.lines_dropped()) as usize;
    let line =
        queue::BESIDE + "1970-01-01T00:00:00.000000Z DEBUG a line text=\n".len() + text.len();
    let fits = queue::BYTES / line;
    assert!((fits..=fits + 1).contains(&kept), "{kept} lines kept");
    drop(release);
}

/// A process ends, or its network does, and all its players are told of in one turn.
#[test]
fn all_who_leave_at_once_have_their_line() {
    let page = Page::default();
    let (subscriber, logging) = build(
        &log("info", LONG),
        Style::Json,
        false,
        Box::new(page.clone()),
    )
    .unwrap();
    let figures = "0123456789".repeat(60);
    tracing::subscriber::with_default(subscriber, || {
        // What writes there waits until they have all gone.
        let _busy = page.0.lock().unwrap();
        for session in 0..4096_u64 {
            tracing::info!(event = "session_end", session, figures);
        }
    });
    write_all(&logging);
    assert_eq!(logging.lines_dropped(), 0);
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 4096);
}

/// Who reads slowly is waited for, at the end of a process that had much to say; who is stuck, once.
#[test]
fn a_slow_reader_gets_the_last_lines() {
    /// Says that it has a line, and reads it once it is told to.
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>, Page);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(()).ok();
            self.1.recv().ok();
            self.2.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let page = Page::default();
    let ((has, has_line), (read, reads)) = (mpsc::channel(), mpsc::channel());
    let sink = Box::new(Slow(has, reads, page.clone()));
    let (subscriber, logging) = build(&log("info", LONG), Style::Json, false, sink).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        for session in 0..100_u64 {
            tracing::info!(event = "session_end", session);
        }
    });
    has_line.recv().unwrap();
    let mut looks = 0;
    logging.wait_while_it_moves(|| {
        looks += 1;
        read.send(()).unwrap();
        has_line.recv().unwrap();
        looks < 50
    });
    assert_eq!(looks, 50);
    logging.wait_while_it_moves(|| {
        looks += 1;
        true
    });
    assert_eq!(looks, 51, "it was stuck");
    drop(read);
    write_all(&logging);
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 100);
}

/// So much fits on it, in the middle of a line.
#[derive(Clone, Default)]
struct Disk {
    page: Page,
    room: Arc<AtomicU64>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room.load(Ordering::Relaxed);
        let fits = bytes.len().min(room as usize);
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room.store(room - fits as u64, Ordering::Relaxed);
        self.page.write(&bytes[..fits])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_costs_its_own_lines_and_they_are_counted_once() {
    let disk = Disk::default();
    disk.room.store(50, Ordering::Relaxed);
    let sink = Box::new(disk.clone());
    let (subscriber, logging) = build(&log("info", LONG), Style::Text, false, sink).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        for session in 1..=3_u64 {
            tracing::info!(event = "session_start", session, long = "0123456789");
        }
        // Looks for what was lost, as it does every second, and cannot say it.
        write_all(&logging);
        write_all(&logging);
        disk.room.store(10_000, Ordering::Relaxed);
        write_all(&logging);
        tracing::info!(event = "session_start", session = 4_u64);
        write_all(&logging);
    });
    assert_eq!(logging.lines_dropped(), 3);
    let text = String::from_utf8(disk.page.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0].len(), 50, "the half that fitted");
    assert!(lines[1].contains("WARN  log_lines_dropped"), "{text}");
    assert!(lines[1].ends_with(" count=3"), "{text}");
    assert!(lines[2].ends_with("session=4"), "{text}");
}

/// On a quiet server a full disk loses one line, and the next after an hour.
#[test]
fn lost_lines_are_news_for_a_minute_and_until_the_log_has_told() {
    let start = clock::now();
    let mut losses = Losses::default();
    let mut recent =
        |secs, dropped, told| losses.are_recent(start + Duration::from_secs(secs), dropped, told);
    assert!(!recent(0, 0, 0));
    assert!(recent(10, 1, 0));
    assert!(recent(600, 1, 0), "the disk is still full");
    assert!(recent(659, 1, 1));
    assert!(!recent(660, 1, 1));
    assert!(recent(700, 2, 2), "told within the second");
    assert!(!recent(760, 2, 2));
}
