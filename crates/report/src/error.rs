//! What goes wrong while something is drawn.

use std::error::Error;
use std::fmt;

/// A plot or a page that could not be made; its source says why.
#[derive(Debug)]
pub struct RenderError {
    what: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl RenderError {
    pub(crate) fn new(what: &'static str, source: impl Error + Send + Sync + 'static) -> RenderError {
        RenderError { what, source: Box::new(source) }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} cannot be drawn: {}", self.what, self.source)
    }
}

impl Error for RenderError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
