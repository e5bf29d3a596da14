//! Anchors and their text form.

use cloakwork_attestation::{ANCHOR_KEYS_MAX, Anchor, AnchorError, PublicKey};

#[test]
fn an_anchor_is_read_as_it_was_written() {
    let anchor = Anchor::new([1, 2, 1].map(|byte| PublicKey([byte; 32]))).expect("an anchor");
    assert_eq!(anchor.keys().len(), 2, "each key once");
    let text = anchor.to_string();
    assert_eq!(text, format!("ed25519:{},ed25519:{}", "01".repeat(32), "02".repeat(32)));
    assert_eq!(text.parse(), Ok(anchor.clone()));
    assert_eq!(format!(" {} ", text.replace(',', " ,\n")).parse(), Ok(anchor));
}

#[test]
fn a_text_that_is_no_anchor_is_refused() {
    let key = format!("ed25519:{}", "0a".repeat(32));
    for text in ["", "ed25519:", &key[..70], &format!("{key}0"), &format!("{key},"), &key.replace("0a0a", "0ag0"), "é"]
    {
        assert!(matches!(text.parse::<Anchor>(), Err(AnchorError::NoKey(_))), "{text}");
    }
    assert_eq!(Anchor::new([]), Err(AnchorError::Count(0)));
    let many = (0..=ANCHOR_KEYS_MAX as u8).map(|byte| PublicKey([byte; 32]));
    assert_eq!(Anchor::new(many), Err(AnchorError::Count(ANCHOR_KEYS_MAX + 1)));
}

#[test]
fn an_error_shows_only_the_beginning_of_a_long_text() {
    let error = "x".repeat(10_000).parse::<Anchor>().expect_err("no key").to_string();
    assert!(error.len() < 200, "{error}");
}
