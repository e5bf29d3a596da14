//! Functions for lookup tables: a name, a table or an expression.

use cloakwork_client::{
    Program, ProgramBuilder,
    params::{Encoding, ParameterSet},
};

use crate::{
    expression::{Expression, Variables},
    failure::Failure,
};

/// The function that `pbs` computes.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Function {
    /// Named function: identity, add1, negate, square, half, parity or positive.
    #[arg(long = "fn", value_name = "NAME")]
    name: Option<Named>,
    /// Table: entry x is the result for x, and missing entries are 0. With two lists of values,
    /// entry x*m + y is the result for x and y, where m is the message modulus.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    table: Option<Vec<u64>>,
    /// Expression in x (and y): integers, + - * / % with the usual precedence, comparisons (0 or
    /// 1), parentheses. Results are taken modulo the number of values that a block holds.
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    expr: Option<Expression>,
}

/// Functions of one value, modulo the number of values of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Named {
    Identity,
    Add1,
    Negate,
    Square,
    Half,
    Parity,
    Positive,
}

impl Function {
    /// The function as a table for 1 or 2 inputs.
    pub(crate) fn entries(&self, set: &'static ParameterSet, inputs: usize) -> Result<Vec<u64>, Failure> {
        if set.encoding == Encoding::Boolean {
            return Err(Failure::Usage(format!(
                "the keys are for {}, a boolean set, which has gates: see `cloakwork gate`",
                set.name
            )));
        }
        let builder = ProgramBuilder::new(set);
        let (values, messages) = (builder.values_of_a_block(), builder.messages());
        if let Some(table) = &self.table {
            let mut table = table.clone();
            if table.len() as u64 > values {
                return Err(Failure::Usage(format!("the table has {} entries: at most {values}", table.len())));
            }
            if let Some(entry) = table.iter().find(|entry| **entry >= values) {
                return Err(Failure::Usage(format!("the table holds {entry}: a block holds 0 to {}", values - 1)));
            }
            table.resize(values as usize, 0);
            return Ok(table);
        }
        if self.name.is_some() && inputs > 1 {
            return Err(Failure::Usage("--fn takes one list of values: use --expr or --table for two".to_owned()));
        }
        let named = self.name.map(|name| name.expression());
        let expression = match named.as_ref().or(self.expr.as_ref()) {
            Some(expression) => expression,
            None => return Err(Failure::Usage("expected one of --fn, --table and --expr".into())),
        };
        if inputs == 1 && expression.uses_y() {
            return Err(Failure::Usage("the expression has a y: give its values with --values2".into()));
        }
        let variables = |index| match inputs {
            1 => Variables { x: index, y: 0 },
            _ => Variables { x: index / messages, y: index % messages },
        };
        let value = |index| expression.evaluate(variables(index), values).map_err(Failure::Usage);
        (0..values).map(value).collect()
    }
}

impl Named {
    fn expression(self) -> Expression {
        let text = match self {
            Self::Identity => "x",
            Self::Add1 => "x + 1",
            Self::Negate => "-x",
            Self::Square => "x * x",
            Self::Half => "x / 2",
            Self::Parity => "x % 2",
            Self::Positive => "x > 0",
        };
        text.parse().expect("a test parses every one")
    }
}

/// Builds the program that looks rows up in a table, and returns it with the largest input value.
pub(crate) fn program(set: &'static ParameterSet, entries: &[u64], inputs: usize) -> Result<(Program, u32), Failure> {
    let mut program = ProgramBuilder::new(set);
    let (values, messages) = (program.values_of_a_block(), program.messages());
    let entry = |index: u64| entries.get(index as usize).copied().unwrap_or(0);
    let (result, bound) = match inputs {
        1 => {
            let x = program.input_up_to("x", (values - 1) as u32);
            (program.lookup(x, entry), values - 1)
        }
        _ => {
            let (x, y) = (program.input("x"), program.input("y"));
            (program.bivariate(x, y, |x, y| entry(x * messages + y)), messages - 1)
        }
    };
    program.output(result);
    Ok((program.build()?, bound as u32))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use cloakwork_client::set_by_name;

    use super::*;

    fn function(name: Option<Named>, table: Option<Vec<u64>>, expr: Option<&str>) -> Function {
        Function { name, table, expr: expr.map(|text| text.parse().expect("an expression")) }
    }

    #[test]
    fn every_named_function_is_an_expression() {
        let set = set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy");
        for &name in Named::value_variants() {
            assert_eq!(function(Some(name), None, None).entries(set, 1).expect("a table").len(), 16);
        }
        let negate = function(Some(Named::Negate), None, None).entries(set, 1).expect("a table");
        assert_eq!(negate[..4], [0, 15, 14, 13]);
    }

    #[test]
    fn tables_and_expressions_of_two_values_have_the_layout_of_the_protocol() {
        let set = set_by_name("TOY_MESSAGE_2_CARRY_2").expect("a toy");
        let product = function(None, None, Some("x * y")).entries(set, 2).expect("a table");
        assert_eq!(product[2 * 4 + 3], 6);
        let short = function(None, Some(vec![5, 6]), None).entries(set, 1).expect("a table");
        assert_eq!((short[..3].to_vec(), short.len()), (vec![5, 6, 0], 16));
        program(set, &product, 2).expect("a program");
        assert!(function(None, Some(vec![16]), None).entries(set, 1).is_err());
        assert!(function(None, None, Some("x + y")).entries(set, 1).is_err());
        assert!(function(None, None, Some("1 / x")).entries(set, 1).is_err(), "it has no value at 0");
    }
}
