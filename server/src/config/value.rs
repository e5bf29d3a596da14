//! Raw values of the sources, and the types of settings.

use std::{net::SocketAddr, path::PathBuf};

use cloakwork_attestation::{Anchor, AnchorError};

use crate::{address::TrustedProxies, hosts::Hosts};

/// A value as read from a source.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    /// A value from the environment or a flag: text for a setting of any type.
    Untyped(String),
    /// A string from the file.
    Text(String),
    /// A boolean from the file.
    Bool(bool),
    /// An integer from the file.
    Integer(i64),
    /// A value of a type that no setting has, with the name of its TOML type.
    Other(&'static str),
}

impl Raw {
    fn described(&self) -> String {
        match self {
            Self::Untyped(text) | Self::Text(text) => format!("'{text}'"),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Integer(value) => format!("the number {value}"),
            Self::Other(kind) => format!("of type {kind}"),
        }
    }
}

/// A type of settings.
pub(super) trait Value: Sized {
    /// Converts a raw value, or returns an error of the form "must be ..., not ...".
    fn read(raw: &Raw) -> Result<Self, String>;

    /// The value in TOML, or `None` if the setting has no value.
    fn show(&self) -> Option<String>;
}

impl Value for bool {
    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Bool(value) => Ok(*value),
            Raw::Untyped(text) if text == "true" => Ok(true),
            Raw::Untyped(text) if text == "false" => Ok(false),
            other => Err(format!("must be true or false, not {}", other.described())),
        }
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for u64 {
    fn read(raw: &Raw) -> Result<Self, String> {
        let value = match raw {
            Raw::Integer(value) => Self::try_from(*value).ok(),
            // Underscores are ignored, as in TOML.
            Raw::Untyped(text) => text.replace('_', "").parse().ok(),
            _ => None,
        };
        value.ok_or_else(|| format!("must be a whole number, 0 or more, not {}", raw.described()))
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for String {
    fn read(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) | Raw::Untyped(text) => Ok(text.clone()),
            other => Err(format!("must be a string, not {}", other.described())),
        }
    }

    fn show(&self) -> Option<String> {
        Some(toml::Value::String(self.clone()).to_string())
    }
}

impl Value for PathBuf {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        if text.is_empty() {
            return Err("must be a path, and is empty".to_owned());
        }
        Ok(Self::from(text))
    }

    fn show(&self) -> Option<String> {
        self.to_string_lossy().into_owned().show()
    }
}

impl Value for Option<PathBuf> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(PathBuf::show)
    }
}

impl Value for SocketAddr {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        text.parse().map_err(|_| format!("must be an IP address and a port, such as 127.0.0.1:7270, not '{text}'"))
    }

    fn show(&self) -> Option<String> {
        self.to_string().show()
    }
}

impl Value for Option<SocketAddr> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        if text.is_empty() { Ok(None) } else { SocketAddr::read(raw).map(Some) }
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(SocketAddr::show)
    }
}

impl Value for Option<Anchor> {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        match text.is_empty() {
            true => Ok(None),
            false => text.parse().map(Some).map_err(|error: AnchorError| format!("is no anchor: {error}")),
        }
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(|anchor| anchor.to_string().show())
    }
}

impl Value for TrustedProxies {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        let networks = text.split(',').map(str::trim).filter(|network| !network.is_empty());
        networks.map(str::parse).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Option<String> {
        self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ").show()
    }
}

impl Value for Hosts {
    fn read(raw: &Raw) -> Result<Self, String> {
        String::read(raw)?.parse()
    }

    fn show(&self) -> Option<String> {
        self.0.join(", ").show()
    }
}

/// Defines a type with a few named values.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_meta])* $variant),* }

        impl Value for $name {
            fn read(raw: &Raw) -> Result<Self, String> {
                match String::read(raw)?.as_str() {
                    $($text => Ok(Self::$variant),)*
                    other => Err(format!("must be {}, not '{other}'", [$($text),*].join(" or "))),
                }
            }

            fn show(&self) -> Option<String> {
                match self { $(Self::$variant => $text.to_owned().show()),* }
            }
        }
    };
}

choice! {
    /// Where blobs are stored.
    BlobStore {
        /// In the data directory.
        Local = "local",
        /// In an S3-compatible store.
        S3 = "s3",
    }
}

choice! {
    /// The protocol of a collector of OpenTelemetry.
    OtlpProtocol {
        /// gRPC.
        Grpc = "grpc",
        /// HTTP with messages of Protocol Buffers.
        Http = "http",
    }
}

choice! {
    /// The format of log lines.
    LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object for each line.
        Json = "json",
    }
}
