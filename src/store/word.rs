//! Words of a command line, values of variables and paths in JSON: text where they are text, else their
//! bytes. None of them need be UTF-8, and what came back a little different would be something else.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One word: `"text"`, or `[255, 120]` where it is no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) OsString);

impl Deref for Word {
    type Target = OsStr;

    fn deref(&self) -> &OsStr {
        &self.0
    }
}

impl<T: Into<OsString>> From<T> for Word {
    fn from(word: T) -> Self {
        Self(word.into())
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.0.as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Word;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a word as text or as bytes")
            }

            fn visit_str<E>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Word, A::Error> {
                let mut word = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    word.push(byte);
                }
                Ok(Word(OsString::from_vec(word)))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// A path that may be missing, for `#[serde(with = …)]`.
pub(crate) mod optional_path {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Word;

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_ref().map(Word::from).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Word>::deserialize(deserializer)?.map(|path| path.0.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_stays_readable() {
        let words = [Word::from("it's\na \"word\" 한국"), Word(OsString::from_vec(vec![120, 255]))];
        let text = serde_json::to_string(&words).unwrap();
        assert_eq!(text, r#"["it's\na \"word\" 한국",[120,255]]"#);
        assert!(serde_json::from_str::<Word>("[256]").is_err());
        assert!(serde_json::from_str::<Word>("3").is_err());
    }

    proptest! {
        #[test]
        fn every_word_comes_back_byte_for_byte(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let word = Word(OsString::from_vec(bytes));
            let text = serde_json::to_string(&word).unwrap();
            prop_assert_eq!(serde_json::from_str::<Word>(&text).unwrap(), word);
        }
    }
}
