//! What part copies have in what is sent.

/// How much of it they are. A queue that grows while they are many is theirs to shorten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// Hardly any.
    Few,
    /// A fair share.
    Many,
    /// None, to see whether that helps.
    Withdrawn,
}
