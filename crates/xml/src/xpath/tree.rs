//! An expression of `XPath` 1.0 as a tree: what was written, abbreviations spelt out.
//!
//! ```text
//!   //book[@year > 1990]/title
//!
//!   Path  from the document
//!    ├─ descendant-or-self::node()
//!    ├─ child::book  [ Compare  Path attribute::year  >  1990 ]
//!    └─ child::title
//! ```
//!
//! 1. Operators of one precedence are one list, so a long expression is not a deep tree: its depth is
//!    that of its brackets.

/// An expression, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// True if one of them is.
    Or(Vec<Expression>),
    /// True if all of them are.
    And(Vec<Expression>),
    /// Comparisons from left to right: the result of one is the left side of the next.
    Compare(Box<Expression>, Vec<(Comparison, Expression)>),
    /// Sums, products and what is left of divisions, from left to right.
    Arithmetic(Box<Expression>, Vec<(Operator, Expression)>),
    /// The number with the other sign.
    Negated(Box<Expression>),
    /// The nodes of all of them.
    Union(Vec<Expression>),
    /// Nodes, from the context or the document on.
    Path(Path),
    /// Nodes of an expression, of which some are chosen, and a path from each of them.
    From {
        /// Where it begins.
        start: Box<Expression>,
        /// What holds of those that are chosen; places are counted in the order of the document.
        predicates: Vec<Expression>,
        /// The path from them.
        steps: Vec<Step>,
    },
    /// A function of the core library.
    Call(Function, Vec<Expression>),
    /// A string.
    Text(String),
    /// A number.
    Number(f64),
}

/// A path of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Whether it begins at the document and not at the node at hand.
    pub from_document: bool,
    /// The steps, from the first on.
    pub steps: Vec<Step>,
}

/// A step from a node to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// In which direction.
    pub axis: Axis,
    /// Which nodes there.
    pub test: NodeTest,
    /// What holds of those that are chosen; places are counted along the axis.
    pub predicates: Vec<Expression>,
}

/// A direction from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The node above, that above it, and so on.
    Ancestor,
    /// The node, then its ancestors.
    AncestorOrSelf,
    /// The attributes of an element.
    Attribute,
    /// The nodes directly below, without attributes.
    Child,
    /// The nodes below.
    Descendant,
    /// The node, then the nodes below.
    DescendantOrSelf,
    /// What begins after the end of the node.
    Following,
    /// What comes later below the same node.
    FollowingSibling,
    /// The namespaces that are in scope.
    Namespace,
    /// The node above.
    Parent,
    /// What ends before the node begins, the nearest first.
    Preceding,
    /// What comes before below the same node, the nearest first.
    PrecedingSibling,
    /// The node.
    SelfNode,
}

/// Which nodes of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeTest {
    /// Those of the axis' own kind with this name.
    Name(Name),
    /// All of the axis' own kind: `*`.
    AnyName,
    /// Those of the axis' own kind in a namespace: `prefix:*`.
    AnyOf {
        /// The prefix.
        prefix: String,
    },
    /// All: `node()`.
    Node,
    /// Text: `text()`.
    Text,
    /// Comments: `comment()`.
    Comment,
    /// Processing instructions, with this target if one is given.
    Instruction(Option<String>),
}

/// A name as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The prefix, if there is one.
    pub prefix: Option<String>,
    /// What comes after the colon, or all of it.
    pub local: String,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// What is made of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `div`
    Divided,
    /// `mod`: what is left, with the sign of the left side.
    Remainder,
}

/// A kind in a list of kinds with names, of which the table is one.
macro_rules! named {
    ($(#[$meta:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $label:literal $min:literal ..= $max:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $($(#[$doc])* $variant,)* }

        impl $kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in expressions.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }

            /// How many arguments it takes, at least and at most.
            #[must_use]
            pub const fn argument_counts(self) -> (usize, usize) {
                match self { $(Self::$variant => ($min, $max),)* }
            }
        }
    };
}

named! {
    /// A function of the core library.
    Function {
        /// How many nodes are looked at.
        Last = "last" 0..=0,
        /// Which of them the one at hand is, from 1 on.
        Position = "position" 0..=0,
        /// How many nodes.
        Count = "count" 1..=1,
        /// The name without its prefix.
        LocalName = "local-name" 0..=1,
        /// The namespace of the name.
        NamespaceUri = "namespace-uri" 0..=1,
        /// The name as it was written.
        Name = "name" 0..=1,
        /// As a string.
        String = "string" 0..=1,
        /// Strings one after the other.
        Concat = "concat" 2..=1024,
        /// Whether one string begins with another.
        StartsWith = "starts-with" 2..=2,
        /// Whether one string is in another.
        Contains = "contains" 2..=2,
        /// What is before the first place of a string.
        SubstringBefore = "substring-before" 2..=2,
        /// What is after it.
        SubstringAfter = "substring-after" 2..=2,
        /// A part of a string, from a character on, from 1 on.
        Substring = "substring" 2..=3,
        /// How many characters.
        StringLength = "string-length" 0..=1,
        /// Without space at the ends, and with one blank in place of more within.
        NormalizeSpace = "normalize-space" 0..=1,
        /// Characters in place of others.
        Translate = "translate" 3..=3,
        /// As true or false.
        Boolean = "boolean" 1..=1,
        /// The contrary.
        Not = "not" 1..=1,
        /// True.
        True = "true" 0..=0,
        /// False.
        False = "false" 0..=0,
        /// Whether `xml:lang` says so.
        Lang = "lang" 1..=1,
        /// As a number.
        Number = "number" 0..=1,
        /// The sum of the numbers of nodes.
        Sum = "sum" 1..=1,
        /// The greatest integer that is not greater.
        Floor = "floor" 1..=1,
        /// The least that is not less.
        Ceiling = "ceiling" 1..=1,
        /// The nearest one, the greater of two.
        Round = "round" 1..=1,
    }
}

impl Expression {
    /// The expressions of which it is made, but for those in the steps and predicates of paths, which
    /// are asked of other nodes.
    pub fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Or(operands) | Self::And(operands) | Self::Union(operands) => {
                operands.iter().collect()
            }
            Self::Compare(first, others) => {
                std::iter::once(&**first).chain(others.iter().map(|(_, other)| other)).collect()
            }
            Self::Arithmetic(first, others) => {
                std::iter::once(&**first).chain(others.iter().map(|(_, other)| other)).collect()
            }
            Self::Negated(operand) => vec![operand],
            Self::From { start, .. } => vec![start],
            Self::Call(_, arguments) => arguments.iter().collect(),
            Self::Path(_) | Self::Text(_) | Self::Number(_) => Vec::new(),
        }
    }

    /// Whether its value is a number, whatever it is asked of.
    #[must_use]
    pub const fn is_number(&self) -> bool {
        match self {
            Self::Number(_) | Self::Arithmetic(..) | Self::Negated(_) => true,
            Self::Call(function, _) => matches!(
                function,
                Function::Last
                    | Function::Position
                    | Function::Count
                    | Function::StringLength
                    | Function::Number
                    | Function::Sum
                    | Function::Floor
                    | Function::Ceiling
                    | Function::Round
            ),
            _ => false,
        }
    }
}

impl Comparison {
    /// The comparison from the other side.
    #[must_use]
    pub const fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Ancestor,
        Self::AncestorOrSelf,
        Self::Attribute,
        Self::Child,
        Self::Descendant,
        Self::DescendantOrSelf,
        Self::Following,
        Self::FollowingSibling,
        Self::Namespace,
        Self::Parent,
        Self::Preceding,
        Self::PrecedingSibling,
        Self::SelfNode,
    ];

    /// Its name in expressions.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ancestor => "ancestor",
            Self::AncestorOrSelf => "ancestor-or-self",
            Self::Attribute => "attribute",
            Self::Child => "child",
            Self::Descendant => "descendant",
            Self::DescendantOrSelf => "descendant-or-self",
            Self::Following => "following",
            Self::FollowingSibling => "following-sibling",
            Self::Namespace => "namespace",
            Self::Parent => "parent",
            Self::Preceding => "preceding",
            Self::PrecedingSibling => "preceding-sibling",
            Self::SelfNode => "self",
        }
    }

    /// Whether it leads against the order of the document, so that places are counted backwards.
    #[must_use]
    pub const fn is_reverse(self) -> bool {
        matches!(
            self,
            Self::Ancestor
                | Self::AncestorOrSelf
                | Self::Parent
                | Self::Preceding
                | Self::PrecedingSibling
        )
    }
}
