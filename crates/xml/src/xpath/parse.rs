//! Reads an expression by recursive descent, a function for each precedence.
//!
//! ```text
//!   or ─► and ─► = != ─► < <= > >= ─► + - ─► * div mod ─► - ─► | ─► path, bracket, call, literal
//! ```

use super::ExpressionError;
use super::tree::{Axis, Comparison, Expression, Function, Name, NodeTest, Operator, Path, Step};
use super::words::{Placed, Word, words};

/// How deep brackets may lie in one another.
pub const DEPTH_MAX: usize = 64;
/// Bytes of the longest expression.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Reads an expression.
///
/// # Errors
/// If it is none, or has a function that is not known or too many brackets.
pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("it has {} bytes, {TEXT_BYTES_MAX} at most are read", text.len());
        return Err(ExpressionError { column: 1, what });
    }
    let mut parser = Parser { text, words: words(text)?, next: 0, depth: 0 };
    let expression = parser.expression()?;
    match parser.words.get(parser.next) {
        None => Ok(expression),
        Some(_) => Err(parser.wrong("an operator, or the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    words: Vec<Placed<'t>>,
    next: usize,
    depth: usize,
}

type Parsed<T> = Result<T, ExpressionError>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Word<'t>> {
        self.words.get(self.next).map(|placed| placed.word)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Word::Sign(found)) if found == sign)
    }

    /// Reads a sign, if it is the next word.
    fn takes_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.next += usize::from(found);
        found
    }

    fn takes_operator(&mut self, operator: &str) -> bool {
        let found = matches!(self.peek(), Some(Word::Operator(found)) if found == operator);
        self.next += usize::from(found);
        found
    }

    fn need(&mut self, sign: &str) -> Parsed<()> {
        match self.takes_sign(sign) {
            true => Ok(()),
            false => Err(self.wrong(sign)),
        }
    }

    /// At the next word.
    fn error(&self, what: String) -> ExpressionError {
        let at = self.words.get(self.next).map_or(self.text.len(), |placed| placed.at);
        ExpressionError::at(self.text, at, what)
    }

    fn wrong(&self, wanted: &str) -> ExpressionError {
        let found = self.words.get(self.next).map_or("the end".to_owned(), |placed| {
            let end = self.words.get(self.next + 1).map_or(self.text.len(), |next| next.at);
            self.text[placed.at..end].trim_end().to_owned()
        });
        self.error(format!("expected {wanted}, found {found}"))
    }

    fn expression(&mut self) -> Parsed<Expression> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(format!("brackets lie more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let expression = self.list(
            |parser| parser.list(Self::equality, |it| it.takes_operator("and"), Expression::And),
            |parser| parser.takes_operator("or"),
            Expression::Or,
        );
        self.depth -= 1;
        expression
    }

    /// Operands with the same operator between them; one without stays as it is.
    fn list(
        &mut self,
        operand: impl Fn(&mut Self) -> Parsed<Expression>,
        takes_operator: impl Fn(&mut Self) -> bool,
        of: impl Fn(Vec<Expression>) -> Expression,
    ) -> Parsed<Expression> {
        let first = operand(self)?;
        if !takes_operator(self) {
            return Ok(first);
        }
        let mut operands = vec![first, operand(self)?];
        while takes_operator(self) {
            operands.push(operand(self)?);
        }
        Ok(of(operands))
    }

    /// Operands with one of several operators between them, from left to right.
    fn chain<O>(
        &mut self,
        operand: impl Fn(&mut Self) -> Parsed<Expression>,
        operator: impl Fn(&mut Self) -> Option<O>,
        of: impl Fn(Box<Expression>, Vec<(O, Expression)>) -> Expression,
    ) -> Parsed<Expression> {
        let first = operand(self)?;
        let mut others = Vec::new();
        while let Some(operator) = operator(self) {
            others.push((operator, operand(self)?));
        }
        match others.is_empty() {
            true => Ok(first),
            false => Ok(of(Box::new(first), others)),
        }
    }

    fn takes_one_of<O: Copy>(&mut self, signs: &[(&str, O)]) -> Option<O> {
        signs.iter().find(|(sign, _)| self.takes_sign(sign)).map(|&(_, operator)| operator)
    }

    fn equality(&mut self) -> Parsed<Expression> {
        const SIGNS: [(&str, Comparison); 2] =
            [("=", Comparison::Equal), ("!=", Comparison::Unequal)];
        self.chain(Self::order, |parser| parser.takes_one_of(&SIGNS), Expression::Compare)
    }

    fn order(&mut self) -> Parsed<Expression> {
        const SIGNS: [(&str, Comparison); 4] = [
            ("<=", Comparison::LessOrEqual),
            ("<", Comparison::Less),
            (">=", Comparison::GreaterOrEqual),
            (">", Comparison::Greater),
        ];
        self.chain(Self::sum, |parser| parser.takes_one_of(&SIGNS), Expression::Compare)
    }

    fn sum(&mut self) -> Parsed<Expression> {
        const SIGNS: [(&str, Operator); 2] = [("+", Operator::Plus), ("-", Operator::Minus)];
        self.chain(Self::product, |parser| parser.takes_one_of(&SIGNS), Expression::Arithmetic)
    }

    fn product(&mut self) -> Parsed<Expression> {
        const NAMES: [(&str, Operator); 3] =
            [("*", Operator::Times), ("div", Operator::Divided), ("mod", Operator::Remainder)];
        let operator = |parser: &mut Self| {
            NAMES.iter().find(|(name, _)| parser.takes_operator(name)).map(|&(_, it)| it)
        };
        self.chain(Self::signed, operator, Expression::Arithmetic)
    }

    fn signed(&mut self) -> Parsed<Expression> {
        let mut minus_count = 0_usize;
        while self.takes_sign("-") {
            minus_count += 1;
        }
        let operand = self.list(Self::path, |it| it.takes_sign("|"), Expression::Union)?;
        Ok(match minus_count {
            0 => operand,
            // Two of them make a number of what is no number, and nothing else.
            count if count % 2 == 0 => {
                Expression::Negated(Box::new(Expression::Negated(Box::new(operand))))
            }
            _ => Expression::Negated(Box::new(operand)),
        })
    }

    fn path(&mut self) -> Parsed<Expression> {
        let start = match self.peek() {
            Some(Word::Text(text)) => Expression::Text(text.to_owned()),
            Some(Word::Number(number)) => Expression::Number(number),
            Some(Word::Sign("(")) => {
                self.next += 1;
                let inner = self.expression()?;
                self.need(")")?;
                return self.path_from(inner);
            }
            Some(Word::Called(prefix, name)) if !is_node_type(prefix, name) => {
                let call = self.call(prefix, name)?;
                return self.path_from(call);
            }
            _ => return self.location_path(),
        };
        self.next += 1;
        self.path_from(start)
    }

    /// Predicates and steps after an expression in brackets, a call or a literal.
    fn path_from(&mut self, start: Expression) -> Parsed<Expression> {
        let predicates = self.predicates()?;
        let mut steps = Vec::new();
        if self.takes_sign("//") {
            steps.push(Step::anywhere());
            self.steps(&mut steps)?;
        } else if self.takes_sign("/") {
            self.steps(&mut steps)?;
        }
        if predicates.is_empty() && steps.is_empty() {
            return Ok(start);
        }
        Ok(Expression::From { start: Box::new(start), predicates, steps })
    }

    fn location_path(&mut self) -> Parsed<Expression> {
        let mut steps = Vec::new();
        let from_document = if self.takes_sign("//") {
            steps.push(Step::anywhere());
            self.steps(&mut steps)?;
            true
        } else if self.takes_sign("/") {
            if self.begins_step() {
                self.steps(&mut steps)?;
            }
            true
        } else {
            self.steps(&mut steps)?;
            false
        };
        Ok(Expression::Path(Path { from_document, steps }))
    }

    fn begins_step(&self) -> bool {
        match self.peek() {
            Some(Word::Sign(sign)) => matches!(sign, "@" | "." | ".." | "*"),
            Some(Word::Name(..) | Word::Axis(_)) => true,
            Some(Word::Called(prefix, name)) => is_node_type(prefix, name),
            _ => false,
        }
    }

    fn steps(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        loop {
            steps.push(self.step()?);
            if self.takes_sign("//") {
                steps.push(Step::anywhere());
            } else if !self.takes_sign("/") {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Parsed<Step> {
        for (sign, axis) in [("..", Axis::Parent), (".", Axis::SelfNode)] {
            if self.takes_sign(sign) {
                return Ok(Step { axis, test: NodeTest::Node, predicates: Vec::new() });
            }
        }
        let axis = match self.peek() {
            Some(Word::Sign("@")) => {
                self.next += 1;
                Axis::Attribute
            }
            Some(Word::Axis(name)) => {
                let known = Axis::ALL.into_iter().find(|axis| axis.label() == name);
                let axis = known.ok_or_else(|| self.error(format!("there is no axis {name}")))?;
                self.next += 1;
                axis
            }
            _ => Axis::Child,
        };
        let test = self.node_test()?;
        let predicates = self.predicates()?;
        Ok(Step { axis, test, predicates })
    }

    fn node_test(&mut self) -> Parsed<NodeTest> {
        let test = match self.peek() {
            Some(Word::Sign("*")) => NodeTest::AnyName,
            Some(Word::Name(Some(prefix), "*")) => NodeTest::AnyOf { prefix: prefix.to_owned() },
            Some(Word::Name(prefix, local)) => NodeTest::Name(Name::of(prefix, local)),
            Some(Word::Called(prefix, name)) if is_node_type(prefix, name) => {
                self.next += 1;
                return self.node_type(name);
            }
            _ => return Err(self.wrong("a step: a name, *, @, ., .. or a test such as text()")),
        };
        self.next += 1;
        Ok(test)
    }

    /// The brackets of a test, and what is in them.
    fn node_type(&mut self, name: &str) -> Parsed<NodeTest> {
        self.need("(")?;
        let test = match name {
            "node" => NodeTest::Node,
            "text" => NodeTest::Text,
            "comment" => NodeTest::Comment,
            _ => match self.peek() {
                Some(Word::Text(target)) => {
                    self.next += 1;
                    NodeTest::Instruction(Some(target.to_owned()))
                }
                _ => NodeTest::Instruction(None),
            },
        };
        self.need(")")?;
        Ok(test)
    }

    fn predicates(&mut self) -> Parsed<Vec<Expression>> {
        let mut predicates = Vec::new();
        while self.takes_sign("[") {
            predicates.push(self.expression()?);
            self.need("]")?;
        }
        Ok(predicates)
    }

    fn call(&mut self, prefix: Option<&str>, name: &str) -> Parsed<Expression> {
        let named = Function::ALL.iter().find(|it| prefix.is_none() && it.label() == name);
        let Some(&function) = named else {
            let known: Vec<&str> = Function::ALL.iter().map(|it| it.label()).collect();
            let what = format!("there is no function {name}; there are {}", known.join(", "));
            return Err(self.error(what));
        };
        let begin = self.next;
        self.next += 1;
        self.need("(")?;
        let mut arguments = Vec::new();
        if !self.is_sign(")") {
            arguments.push(self.expression()?);
            while self.takes_sign(",") {
                arguments.push(self.expression()?);
            }
        }
        self.need(")")?;
        let (least, most) = function.argument_counts();
        if !(least..=most).contains(&arguments.len()) {
            self.next = begin;
            let wanted = match least == most {
                true => least.to_string(),
                false => format!("{least} to {most}"),
            };
            let found = arguments.len();
            return Err(self.error(format!("{name} takes {wanted} arguments, not {found}")));
        }
        Ok(Expression::Call(function, arguments))
    }
}

fn is_node_type(prefix: Option<&str>, name: &str) -> bool {
    prefix.is_none() && matches!(name, "node" | "text" | "comment" | "processing-instruction")
}

impl Step {
    /// The step that is written as `//`.
    pub(super) const fn anywhere() -> Self {
        Self { axis: Axis::DescendantOrSelf, test: NodeTest::Node, predicates: Vec::new() }
    }
}

impl Name {
    fn of(prefix: Option<&str>, local: &str) -> Self {
        Self { prefix: prefix.map(str::to_owned), local: local.to_owned() }
    }
}
