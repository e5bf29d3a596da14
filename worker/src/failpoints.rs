//! Faults that tests ask for. Never part of a build that is shipped: the feature is off by default.

use cloakwork_circuit::Program;

/// What shall go wrong in the first wave that a job takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies.
    Abort,
    /// The engine stands still for ever, while everything else goes on.
    Hang,
}

/// The fault that a program's first input asks for by its name.
pub(crate) fn of(program: &Program) -> Option<Fault> {
    match program.inputs().first()?.name.as_str() {
        "poison" => Some(Fault::Abort),
        "hang" => Some(Fault::Hang),
        _ => None,
    }
}

/// Has it happen.
pub(crate) fn strike(fault: Option<Fault>) {
    match fault {
        Some(Fault::Abort) => std::process::abort(),
        Some(Fault::Hang) => loop {
            std::thread::park();
        },
        None => {}
    }
}
