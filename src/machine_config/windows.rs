//! Maintenance windows: days and hours in a time zone in which nodes of a pool may be begun.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Longer texts are refused: they come from an annotation that many people may write.
const MAX_TEXT: usize = 1024;
/// A week and a day more: whatever window there is opens within that.
const DAYS_AHEAD: usize = 9;
const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Such as `Mon-Fri 22:00-04:00; Sat,Sun 00:00-24:00` in a time zone.
#[derive(Clone, Debug)]
pub struct Windows {
    zone: TimeZone,
    windows: Vec<Window>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    /// The days on which it begins, from Monday.
    days: [bool; 7],
    /// Minutes after midnight. One that ends before it begins, or at the same time, ends on the next day.
    from: i64,
    to: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Now, until then; `None` where there is no end to see.
    Open { until: Option<Timestamp> },
    /// Not before then.
    Closed { until: Option<Timestamp> },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    #[error("more than {MAX_TEXT} bytes")]
    Long,
    #[error("{0:?} is not a window: write days and hours such as \"Mon-Fri 22:00-04:00\" or \"Sat,Sun 00:00-24:00\"")]
    Window(String),
    #[error("{0:?} is not a day: write Mon, Tue, Wed, Thu, Fri, Sat or Sun")]
    Day(String),
    #[error("{0:?} is not a time of day: write 00:00 to 24:00")]
    Time(String),
    #[error("{0:?} is not a time zone: write a name such as Europe/Berlin, or UTC")]
    Zone(String),
}

impl Windows {
    /// `windows`: days and hours, several with semicolons between them; `zone`: a name of the IANA database, empty is UTC.
    pub fn parse(windows: &str, zone: &str) -> Result<Windows, WindowError> {
        if windows.len() > MAX_TEXT || zone.len() > MAX_TEXT {
            return Err(WindowError::Long);
        }
        let zone = match zone.trim() {
            "" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| WindowError::Zone(name.to_owned()))?,
        };
        let windows = windows.split(';').map(str::trim).filter(|text| !text.is_empty()).map(window);
        Ok(Windows { zone, windows: windows.collect::<Result<_, _>>()? })
    }

    /// Whether a node may be begun at `now`. Without any window it may not.
    pub fn at(&self, now: Timestamp) -> Opening {
        let mut spans = self.spans(now);
        spans.sort_unstable();
        let mut open: Option<Timestamp> = None;
        for (from, to) in spans {
            match open {
                // Windows that follow each other without a gap are one.
                Some(until) if from <= until => open = Some(until.max(to)),
                Some(_) => break,
                None if to <= now => {}
                None if from <= now => open = Some(to),
                None => return Opening::Closed { until: Some(from) },
            }
        }
        let last = self.last(now);
        match open {
            Some(until) => Opening::Open { until: Some(until).filter(|until| *until < last) },
            None => Opening::Closed { until: None },
        }
    }

    /// Beyond this nothing was looked at.
    fn last(&self, now: Timestamp) -> Timestamp {
        let day = now.to_zoned(self.zone.clone()).date();
        day.checked_add(8.days()).ok().and_then(|day| self.instant(day, 0)).unwrap_or(Timestamp::MAX)
    }

    /// From the day before, because a window may go past midnight.
    fn spans(&self, now: Timestamp) -> Vec<(Timestamp, Timestamp)> {
        let today = now.to_zoned(self.zone.clone()).date();
        let Ok(first) = today.yesterday() else { return Vec::new() };
        let days: Vec<Date> = first.series(1.day()).take(DAYS_AHEAD + 1).collect();
        let span = |day: Date, window: &Window| {
            let number = usize::try_from(day.weekday().to_monday_zero_offset()).unwrap_or_default();
            let to = if window.to > window.from { window.to } else { window.to + 24 * 60 };
            let begins = window.days.get(number) == Some(&true);
            begins.then(|| Some((self.instant(day, window.from)?, self.instant(day, to)?))).flatten()
        };
        let span = &span;
        days.into_iter().flat_map(|day| self.windows.iter().filter_map(move |window| span(day, window))).collect()
    }

    /// So many minutes after the midnight that begins the day, by the clock on the wall. A time that the change to summer
    /// time skips is the one after the gap.
    fn instant(&self, day: Date, minutes: i64) -> Option<Timestamp> {
        let day = day.checked_add((minutes / (24 * 60)).days()).ok()?;
        let minutes = minutes % (24 * 60);
        let time = Time::new(i8::try_from(minutes / 60).ok()?, i8::try_from(minutes % 60).ok()?, 0, 0).ok()?;
        Some(self.zone.to_zoned(day.to_datetime(time)).ok()?.timestamp())
    }
}

fn window(text: &str) -> Result<Window, WindowError> {
    let whole = || WindowError::Window(text.to_owned());
    let mut words = text.split_whitespace();
    let (Some(names), Some(hours), None) = (words.next(), words.next(), words.next()) else { return Err(whole()) };
    let mut days = [false; 7];
    for part in names.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        loop {
            if let Some(day) = days.get_mut(at) {
                *day = true;
            }
            if at == last {
                break;
            }
            at = (at + 1) % 7;
        }
    }
    let (from, to) = hours.split_once('-').ok_or_else(whole)?;
    Ok(Window { days, from: minutes(from)?, to: minutes(to)? })
}

fn day(name: &str) -> Result<usize, WindowError> {
    NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)).ok_or_else(|| WindowError::Day(name.to_owned()))
}

fn minutes(text: &str) -> Result<i64, WindowError> {
    let number =
        |text: &str| text.parse::<i64>().ok().filter(|_| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()));
    let parsed = text.split_once(':').and_then(|(hours, minutes)| {
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        (hours < 24 && minutes < 60 || hours == 24 && minutes == 0).then_some(hours * 60 + minutes)
    });
    parsed.ok_or_else(|| WindowError::Time(text.to_owned()))
}

#[cfg(test)]
mod tests;
