//! What the user sees: results on stdout, as text or JSON, progress on stderr and only where somebody looks.

use std::io::{IsTerminal, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;

/// Prints a value as one JSON object.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::refused("output", format!("not serialisable: {e}")))?;
    print(&format!("{text}\n"))
}

/// Prints text to stdout. A reader that has gone away (`mezz ... | head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::refused("standard output", e)),
        _ => Ok(()),
    }
}

/// A message for the person at the terminal that is not the result: stderr.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// A progress bar with a known length, shown only when stderr is a terminal.
pub(crate) fn progress(len: u64, what: &str) -> ProgressBar {
    let style = "{msg:<44} {bar:30} {percent:>3} %  {elapsed}, {eta} left";
    bar(ProgressBar::new(len), style, what)
}

/// A progress line for work of unknown length.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let bar = bar(ProgressBar::new_spinner(), "{msg:<44} {spinner} {elapsed}", what);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn bar(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    bar.set_draw_target(target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(what.to_owned());
    bar
}
