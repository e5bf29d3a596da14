//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod ckks;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod gate;
pub(crate) mod jobs;
pub(crate) mod keygen;
pub(crate) mod keys;
pub(crate) mod pbs;
mod sets;
pub(crate) mod top;
pub(crate) mod uploads;

use crate::{
    args::{Args, Command},
    context::Context,
    failure::Failure,
};

/// Runs the command of the arguments.
pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let context = Context::new(args.global);
    match args.command {
        Command::Keygen(args) => keygen::run(&context, args).await,
        Command::Ckks(command) => ckks::run(&context, command).await,
        Command::Keys(command) => keys::run(&context, command).await,
        Command::Eval(args) => eval::run(&context, args).await,
        Command::Pbs(args) => pbs::run(&context, args).await,
        Command::Gate(args) => gate::run(&context, args).await,
        Command::Jobs(command) => jobs::run(&context, command).await,
        Command::Uploads(command) => uploads::run(&context, command).await,
        Command::Sets => sets::run(&context).await,
        Command::Bench(args) => bench::run(&context, args).await,
        Command::Top(args) => top::run(&context, args).await,
        Command::Demo(args) => demo::run(&context, args).await,
        Command::Completions(args) => completions::run(&args),
    }
}
