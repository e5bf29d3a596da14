//! Bugs that are planted on purpose. Each removes one safeguard, and the simulator must notice.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The database takes the transactions of any server.
    FenceOff,
    /// The database compares the epoch alone, and not the owner. A takeover that was lost may be
    /// repeated under one epoch.
    OwnerUnchecked,
    /// The database does not compare the number of batches.
    SeqUnchecked,
    /// Servers take over before the owner has been silent for long enough.
    EarlyTakeover,
    /// The owner publishes early, however old its last beat is.
    AlwaysCertain,
    /// The owner counts its certainty from the answer to a beat instead of from its sending.
    CertainFromAnswer,
    /// A server that finds itself the owner, after a takeover without an answer, counts its
    /// certainty from that look.
    CertainFromLook,
    /// A beat restores the row of a server that was deposed.
    BeatRevives,
    /// Beats do not wait until they survive the loss of the database server.
    WeakBeat,
    /// The owner keeps its state in memory after a transaction with an unknown result.
    NoReload,
    /// The owner does not compare the number of batches with its beats. Without new work, it never
    /// notices that the database lost some.
    BeatIgnoresSeq,
    /// An owner that may have been deposed refuses results and withdraws leases, if it has nothing
    /// to write.
    AnswerUncertain,
    /// A server does not look for an earlier job of a request.
    RequestsForgotten,
    /// The next owner does not learn which workers hold jobs.
    HoldersForgotten,
    /// Submissions are acknowledged before their commit.
    EarlyAnswer,
    /// Promises do not wait until they survive the loss of the database server.
    WeakPromise,
    /// The end of a job is published although the job is not in the database.
    EndOfUnknown,
}

impl Bug {
    /// All bugs, with the names that the example takes.
    pub const ALL: [(&'static str, Self); 17] = [
        ("fence-off", Self::FenceOff),
        ("owner-unchecked", Self::OwnerUnchecked),
        ("seq-unchecked", Self::SeqUnchecked),
        ("early-takeover", Self::EarlyTakeover),
        ("always-certain", Self::AlwaysCertain),
        ("certain-from-answer", Self::CertainFromAnswer),
        ("certain-from-look", Self::CertainFromLook),
        ("beat-revives", Self::BeatRevives),
        ("weak-beat", Self::WeakBeat),
        ("no-reload", Self::NoReload),
        ("beat-ignores-seq", Self::BeatIgnoresSeq),
        ("answer-uncertain", Self::AnswerUncertain),
        ("requests-forgotten", Self::RequestsForgotten),
        ("holders-forgotten", Self::HoldersForgotten),
        ("early-answer", Self::EarlyAnswer),
        ("weak-promise", Self::WeakPromise),
        ("end-of-unknown", Self::EndOfUnknown),
    ];

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, bug)| bug)
    }

    /// The name of the bug.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, bug)| *bug == self).map_or("", |(name, _)| name)
    }
}
