//! Lowering for shortint sets: blocks, booleans and integers.

use cloakwork_params::Encoding;

use crate::{
    Cost, Goal, Graph, Program, Type, aes,
    draft::{Cell, Draft},
    integer::{self, Digits, Direction, Division, End, Relation},
    program::{Operation, Returned},
    wire::operation::Kind,
};

/// The graph of a program.
pub(super) fn lower(program: &Program, goal: Goal) -> Graph {
    let (draft, outputs) = draft(program, goal);
    draft.finish(program.inputs.iter().map(|input| input.row.blocks()).collect(), &outputs)
}

/// Cost of that graph.
pub(super) fn cost(program: &Program, goal: Goal) -> Cost {
    let (draft, outputs) = draft(program, goal);
    draft.cost(&outputs)
}

/// The draft of a program's graph, and the blocks of each output.
fn draft(program: &Program, goal: Goal) -> (Draft, Vec<Digits>) {
    let Encoding::Shortint { message_modulus, .. } = program.set.encoding else { unreachable!("a shortint set") };
    let mut lowering = Lowering {
        program,
        draft: Draft::new(program.set, goal),
        messages: message_modulus as i64,
        goal,
        values: Vec::new(),
    };
    for input in &program.inputs {
        let noise_level = if input.is_fresh { 0 } else { input.noise_level_max };
        for _ in 0..input.row.values() {
            let blocks = 0..input.row.ty.blocks();
            lowering.values.push(blocks.map(|_| lowering.draft.input(input.degree_max, noise_level)).collect());
        }
    }
    program.operations.iter().for_each(|operation| lowering.operation(operation));
    let outputs = program.outputs.iter().map(|output| lowering.output(output)).collect();
    (lowering.draft, outputs)
}

struct Lowering<'p> {
    program: &'p Program,
    draft: Draft,
    /// Number of messages of a block.
    messages: i64,
    goal: Goal,
    /// The program's values so far, block by block. Integers may hold carries.
    values: Vec<Digits>,
}

impl Lowering<'_> {
    fn operation(&mut self, operation: &Operation) {
        match (operation.kind, &operation.arguments[..]) {
            (Kind::LookupBivariate, &[left, right]) => {
                let both = self.values[left][0].times(self.messages).plus(&self.values[right][0]);
                self.look_up(&both, &operation.tables);
            }
            (Kind::Lookup | Kind::LookupMany, &[block]) => {
                let block = self.values[block][0].clone();
                self.look_up(&block, &operation.tables);
            }
            _ => {
                let result = self.compute(operation);
                self.values.push(result);
            }
        }
    }

    fn look_up(&mut self, block: &Cell, tables: &[Vec<u64>]) {
        for table in tables {
            let result =
                self.draft.lookup_as_asked(block, |value| table.get(value as usize).map_or(0, |entry| *entry as i64));
            self.values.push(vec![result]);
        }
    }

    /// Lowers an operation on booleans and integers, whose types have been checked.
    fn compute(&mut self, operation: &Operation) -> Digits {
        let ty = self.program.values[self.values.len()].ty;
        let arguments = &operation.arguments[..];
        match (operation.kind, arguments) {
            (Kind::Constant, []) => integer::constant(&operation.value, ty.blocks(), ty),
            (Kind::Cast, &[value]) => self.cast(value, ty),
            (Kind::Negate, &[value]) => integer::negate(&mut self.draft, &self.values[value], self.goal),
            (Kind::Add, &[left, right]) => {
                integer::add(&mut self.draft, &self.values[left], &self.values[right], self.goal)
            }
            (Kind::Subtract, &[left, right]) => {
                integer::subtract(&mut self.draft, &self.values[left], &self.values[right], self.goal)
            }
            (Kind::Multiply, &[left, right]) => {
                let (left, right) = (self.clean(left), self.clean(right));
                integer::multiply(&mut self.draft, &left, &right)
            }
            (Kind::Sum, _) => {
                let numbers: Vec<Digits> = arguments.iter().map(|&value| self.values[value].clone()).collect();
                integer::sum(&mut self.draft, &numbers, ty.blocks())
            }
            (Kind::Dot, _) => {
                let numbers: Vec<Digits> = arguments.iter().map(|&value| self.clean(value)).collect();
                let pairs: Vec<_> = numbers.as_chunks().0.iter().map(|[left, right]| (&left[..], &right[..])).collect();
                integer::dot(&mut self.draft, &pairs)
            }
            (Kind::IsOneOf, &[value, ref others @ ..]) => {
                let number = self.clean(value);
                let others: Vec<Digits> = others.iter().map(|&value| self.clean(value)).collect();
                vec![integer::is_one_of(&mut self.draft, &number, &others)]
            }
            (Kind::Match, &[value, ref cases @ .., otherwise]) => {
                let (number, otherwise) = (self.clean(value), self.clean(otherwise));
                let case = |&[key, result]: &[usize; 2]| (self.clean(key), self.clean(result));
                let cases: Vec<(Digits, Digits)> = cases.as_chunks().0.iter().map(case).collect();
                integer::choose(&mut self.draft, &number, &cases, &otherwise)
            }
            (Kind::Not, &[value]) => integer::not(&self.clean(value), ty),
            (Kind::Absolute, &[value]) => {
                let number = self.clean(value);
                integer::absolute(&mut self.draft, &number, self.goal)
            }
            (Kind::ReverseBits, &[value]) => {
                let number = self.clean(value);
                integer::reverse(&mut self.draft, &number)
            }
            (kind, &[value]) => self.count(kind, value, ty.blocks()),
            (Kind::Aes128Encrypt, &[key, block]) => {
                let (key, block) = (self.clean(key), self.clean(block));
                aes::encrypt(&mut self.draft, &key, &block)
            }
            (Kind::Mux, &[condition, yes, no]) => {
                let (condition, yes, no) = (self.values[condition][0].clone(), self.clean(yes), self.clean(no));
                integer::select(&mut self.draft, &condition, &yes, &no)
            }
            (kind, &[left, right]) => self.of_two(kind, left, right, ty),
            (kind, _) => unreachable!("{kind:?} was checked to have its arguments"),
        }
    }

    /// Counts bits, with a result of this many digits.
    fn count(&mut self, kind: Kind, value: usize, digits: usize) -> Digits {
        let mut number = self.clean(value);
        // The functions below count ones and leading or trailing zeros. For the opposite kind of
        // bit, count in the complement.
        if matches!(kind, Kind::CountZeros | Kind::LeadingOnes | Kind::TrailingOnes) {
            number = integer::not(&number, self.program.values[value].ty);
        }
        let draft = &mut self.draft;
        match kind {
            Kind::CountOnes | Kind::CountZeros => integer::ones(draft, &number, digits),
            Kind::LeadingOnes | Kind::LeadingZeros => integer::zeros_before(draft, &number, End::Highest, digits),
            Kind::TrailingOnes | Kind::TrailingZeros => integer::zeros_before(draft, &number, End::Lowest, digits),
            other => unreachable!("{other:?} was checked to have its arguments"),
        }
    }

    fn of_two(&mut self, kind: Kind, left: usize, right: usize, ty: Type) -> Digits {
        let is_signed = self.program.values[left].ty.is_signed();
        let [left, right] = [left, right].map(|value| self.clean(value));
        let (draft, goal) = (&mut self.draft, self.goal);
        let mut compare = |relation| vec![integer::relation(draft, &left, &right, is_signed, relation)];
        match kind {
            Kind::Less => compare(Relation::Less),
            Kind::LessOrEqual => compare(Relation::LessOrEqual),
            Kind::Greater => compare(Relation::Greater),
            Kind::GreaterOrEqual => compare(Relation::GreaterOrEqual),
            Kind::Min | Kind::Max => {
                let is_less = compare(Relation::Less);
                let (yes, no) = if kind == Kind::Min { (&left, &right) } else { (&right, &left) };
                integer::select(draft, &is_less[0], yes, no)
            }
            Kind::Divide | Kind::Remainder => {
                let Division { quotient, remainder } = integer::divide(draft, &left, &right, is_signed, goal);
                if kind == Kind::Divide { quotient } else { remainder }
            }
            Kind::AddOverflows => vec![integer::sum_overflows(draft, &left, &right, is_signed, goal)],
            Kind::SubtractOverflows => vec![integer::difference_overflows(draft, &left, &right, is_signed, goal)],
            Kind::MultiplyOverflows => vec![integer::product_overflows(draft, &left, &right, is_signed, goal)],
            Kind::Equal => vec![integer::equal(draft, &left, &right)],
            Kind::NotEqual => integer::not(&[integer::equal(draft, &left, &right)], Type::Bool),
            Kind::ShiftLeft => integer::shift(draft, &left, &right, Direction::Left),
            Kind::ShiftRight => integer::shift(draft, &left, &right, Direction::Right { is_signed }),
            Kind::RotateLeft => integer::shift(draft, &left, &right, Direction::RotateLeft),
            Kind::RotateRight => integer::shift(draft, &left, &right, Direction::RotateRight),
            _ => integer::bitwise(draft, &left, &right, ty, bit_function(kind)),
        }
    }

    fn output(&mut self, output: &Returned) -> Digits {
        let digits: Digits = output.values.iter().flat_map(|&value| self.clean(value)).collect();
        digits.into_iter().map(|digit| self.draft.returned(digit)).collect()
    }

    /// The value with all carries propagated.
    fn clean(&mut self, value: usize) -> Digits {
        match self.program.values[value].ty {
            Type::Block | Type::Bool => self.values[value].clone(),
            Type::Uint(_) | Type::Int(_) => integer::clean(&mut self.draft, &self.values[value], self.goal),
        }
    }

    fn cast(&mut self, value: usize, ty: Type) -> Digits {
        let from = self.program.values[value].ty;
        // The digits that a truncation keeps do not depend on the others, so truncate before
        // propagating carries.
        let mut digits = self.values[value].clone();
        digits.truncate(ty.blocks());
        if ty.blocks() > digits.len() {
            digits = self.clean(value);
            let filler = integer::filler(&mut self.draft, &digits, from.is_signed());
            digits.resize(ty.blocks(), filler);
        }
        digits
    }
}

/// Function of a gate on bits.
fn bit_function(kind: Kind) -> fn(i64, i64) -> i64 {
    match kind {
        Kind::And => |left, right| left & right,
        Kind::Nand => |left, right| !(left & right),
        Kind::Nor => |left, right| !(left | right),
        Kind::Or => |left, right| left | right,
        Kind::Xnor => |left, right| !(left ^ right),
        Kind::Xor => |left, right| left ^ right,
        other => unreachable!("{other:?} is no gate"),
    }
}
