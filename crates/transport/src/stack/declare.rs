//! One declaration for each property: the field, its meaning, its value in each kernel, and where
//! that value comes from.

/// Declares the struct of properties, a static for each kernel, and the rows of the table for
/// readers.
///
/// Every property names the kernels in the order of `columns`; one that leaves a kernel out, or
/// swaps two, does not compile.
macro_rules! kernels {
    (
        columns { $($column:ident: $name:literal, $about:literal;)+ }
        $(section $title:literal {
            $($(#[doc = $meaning:literal])+ $field:ident: $type:ty {
                $($of:ident = $value:expr, $source:literal;)+
            })+
        })+
    ) => {
        /// The properties of one kernel's TCP and Multipath TCP in which the modelled kernels
        /// differ.
        #[derive(Debug)]
        pub struct Stack {
            /// What a study calls the kernel.
            pub name: &'static str,
            /// The exact release.
            pub about: &'static str,
            $($($(#[doc = $meaning])+ pub $field: $type,)+)+
        }

        #[expect(non_camel_case_types, reason = "columns have the names of the statics")]
        #[derive(Copy, Clone)]
        enum Column { $($column),+ }

        const COLUMNS: usize = [$(Column::$column),+].len();

        const fn in_order(of: &[Column]) -> bool {
            let mut at = 0;
            while at < of.len() {
                if of[at] as usize != at {
                    return false;
                }
                at += 1;
            }
            at == COLUMNS
        }

        const fn stack(column: Column) -> Stack {
            Stack {
                name: [$($name),+][column as usize],
                about: [$($about),+][column as usize],
                $($($field: {
                    const VALUES: [$type; COLUMNS] = [$($value),+];
                    const { assert!(in_order(&[$(Column::$of),+]), "each property has a value for each kernel, in the order of the columns") };
                    VALUES[column as usize]
                },)+)+
            }
        }

        $(#[doc = $about] pub static $column: Stack = stack(Column::$column);)+

        /// All kernels, in the order of the columns.
        pub static STACKS: [&Stack; COLUMNS] = [$(&$column),+];

        impl Stack {
            /// This kernel with the value that `property` has in `other`; as it is where no
            /// property is called so. For tests of what a value decides.
            #[must_use]
            pub fn with_value_of(&self, other: &Self, property: &str) -> Self {
                Self {
                    name: self.name,
                    about: self.about,
                    $($($field: if property == stringify!($field) { other.$field } else { self.$field },)+)+
                }
            }
        }

        /// The table for readers.
        pub fn rows() -> Vec<Row> {
            vec![$($(Row {
                section: $title,
                name: stringify!($field),
                meaning: concat!($($meaning),+).trim(),
                values: STACKS.map(|stack| stack.$field.words()).to_vec(),
                sources: vec![$($source),+],
            },)+)+]
        }
    };
}

pub(super) use kernels;

/// One property.
#[derive(Clone, Debug)]
pub struct Row {
    /// Under which heading it stands.
    pub section: &'static str,
    /// The field of [`Stack`](super::Stack).
    pub name: &'static str,
    /// The doc comment of that field, as Markdown.
    pub meaning: &'static str,
    /// Its value in each kernel, in words.
    pub values: Vec<String>,
    /// Where each value comes from.
    pub sources: Vec<&'static str>,
}
