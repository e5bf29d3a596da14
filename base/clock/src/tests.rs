use std::time::{Duration, UNIX_EPOCH};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn a_manual_clock_stands_until_it_is_advanced_and_drives_both_times() {
    let manual = ManualClock::at(DAY_MICROS);
    let (clock, other) = (manual.clock(), manual.clock());
    let earlier = clock.epoch();
    manual.advance(Duration::from_micros(7));
    let epoch = other.epoch();
    assert_eq!((clock.unix_micros(), earlier.micros(), epoch.micros()), (DAY_MICROS + 7, 7, 0));
    manual.advance(DAY);
    assert_eq!((clock.unix_micros(), other.unix_micros()), (2 * DAY_MICROS + 7, 2 * DAY_MICROS + 7));
    assert_eq!((earlier.micros(), epoch.micros()), (86_400_000_007, 86_400_000_000));
}

#[test]
fn a_step_of_the_time_of_day_leaves_epochs_alone() {
    let manual = ManualClock::at(DAY_MICROS);
    let (clock, epoch) = (manual.clock(), manual.clock().epoch());
    manual.advance(Duration::from_micros(5));
    manual.set_unix_micros(3);
    assert_eq!((clock.unix_micros(), epoch.micros()), (3, 5));
}

#[test]
fn the_system_clock_reads_the_system_time() {
    let clock = Clock::system();
    let before = unix_micros_of(SystemTime::now());
    let (now, epoch, begun) = (clock.unix_micros(), clock.epoch(), Instant::now());
    assert!((before..=unix_micros_of(SystemTime::now())).contains(&now));
    // The epoch began before the instant, so its time is at least as long.
    let least = micros_of(begun.elapsed());
    let first = epoch.micros();
    assert!(first >= least && epoch.micros() >= first);
}

#[test]
fn an_epoch_across_sleep_passes_as_fast_as_another_while_the_machine_is_awake() {
    let clock = Clock::system();
    let (epoch, across) = (clock.epoch(), clock.epoch_across_sleep());
    std::thread::sleep(Duration::from_millis(5));
    let (least, passed) = (epoch.micros(), across.micros());
    // The second epoch began later, by the time of a call.
    assert!(passed >= 5000 && passed.abs_diff(least) < 1_000_000, "{passed} and {least}");
    let manual = ManualClock::at(0);
    let across = manual.clock().epoch_across_sleep();
    manual.advance(DAY);
    assert_eq!(across.micros(), micros_of(DAY));
}

#[test]
fn times_convert_both_ways_and_stop_at_the_ends_of_the_range() {
    let time = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    assert_eq!(unix_micros_of(time), 1_700_000_000_123_456);
    assert_eq!(to_system_time(unix_micros_of(time)), time);
    assert_eq!(unix_micros_of(UNIX_EPOCH - DAY), 0);
    assert_eq!(to_system_time(-1), UNIX_EPOCH);
    assert_eq!(unix_micros_after(5, DAY), DAY_MICROS + 5);
    assert_eq!(unix_micros_after(i64::MAX - 1, DAY), i64::MAX);
    assert_eq!(unix_micros_after(0, Duration::MAX), i64::MAX);
    assert_eq!(unix_micros_before(DAY_MICROS + 5, DAY), 5);
    assert_eq!(unix_micros_before(i64::MIN + 1, DAY), i64::MIN);
    assert_eq!((micros_of(DAY), micros_of(Duration::MAX)), (86_400_000_000, u64::MAX));
}

#[test]
fn a_moved_clock_moves_its_clones_and_no_epoch() {
    let time = ManualClock::at(1000);
    let (clock, other) = (time.clock(), time.clock());
    let (clone, epoch) = (clock.clone(), clock.epoch());
    clock.move_by(-300);
    clock.move_by(-200);
    time.advance(Duration::from_micros(7));
    assert_eq!((clone.unix_micros(), clone.unmoved_unix_micros(), clone.moved_micros()), (807, 1007, -200));
    assert_eq!((other.unix_micros(), epoch.micros()), (1007, 7));
}
