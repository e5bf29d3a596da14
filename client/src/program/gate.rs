//! Gates as operations of a program.

use cloakwork_circuit::wire::operation::Kind;
use cloakwork_secret::Gate;

pub(super) fn kind(gate: Gate) -> Kind {
    match gate {
        Gate::And => Kind::And,
        Gate::Nand => Kind::Nand,
        Gate::Nor => Kind::Nor,
        Gate::Or => Kind::Or,
        Gate::Xnor => Kind::Xnor,
        Gate::Xor => Kind::Xor,
    }
}
