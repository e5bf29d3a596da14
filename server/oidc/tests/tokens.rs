//! Good tokens are accepted, and each kind of wrong token is refused with its reason.

use cloakwork_oidc::Refusal;
use serde_json::{Value, json};

use crate::{
    issuer::{Trial, claims_of},
    keys::{NOW, Signer, encode},
};

const HOUR: i64 = 3600;

/// The refusal of a token. Its texts quote neither the token nor a claim.
async fn refusal(trial: &Trial, token: &str) -> Refusal {
    let refusal = trial.verify(token).await.expect_err("the token is wrong");
    let texts = format!("{refusal} {refusal:?}");
    assert!(!texts.contains("CANARY"), "{texts}");
    let pieces: Vec<&str> = token.as_bytes().chunks_exact(12).filter_map(|piece| str::from_utf8(piece).ok()).collect();
    assert!(!pieces.iter().any(|piece| texts.contains(piece)), "{texts}");
    refusal
}

/// A trial with a key of Ed25519, which the verifier knows.
async fn trial() -> (Trial, Signer) {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    trial.login(&signer).await.expect("a good token");
    (trial, signer)
}

/// The result for a good token with this claim instead of its own.
async fn with_claim(trial: &Trial, signer: &Signer, name: &str, value: Value) -> Result<(), Refusal> {
    let mut claims = trial.issuer.claims();
    claims[name] = value;
    let token = signer.token(&claims);
    match trial.verify(&token).await {
        Ok(_) => Ok(()),
        Err(_) => Err(refusal(trial, &token).await),
    }
}

async fn without_claim(trial: &Trial, signer: &Signer, name: &str) -> Result<(), Refusal> {
    let mut claims = trial.issuer.claims();
    claims.as_object_mut().expect("an object").remove(name);
    trial.verify(&signer.token(&claims)).await.map(drop)
}

fn claim(name: &str) -> Result<(), Refusal> {
    Err(Refusal::Claim(name.to_owned()))
}

#[tokio::test]
async fn tokens_of_each_algorithm_are_accepted() {
    let signers = [Signer::rsa("rsa"), Signer::p256("b"), Signer::ed25519("c")];
    let trial = Trial::new(&signers.each_ref()).await;
    for signer in &signers {
        let claims = trial.login(signer).await.expect("a good token");
        assert_eq!((&*claims.subject, &*claims.tenant), ("7f1d2c", "acme"));
        assert_eq!(claims.scopes, ["jobs", "read"]);
        assert_eq!(claims.issued_unix_micros, NOW * 1_000_000);
        assert_eq!(claims.expires_unix_micros, (NOW + 300) * 1_000_000);
    }
    let header = json!({"alg": "PS256", "kid": "rsa"});
    trial.verify(&signers[0].token_of(&header, &trial.issuer.claims())).await.expect("a good token of PS256");
    assert_eq!(trial.issuer.key_sets(), 1);
}

#[tokio::test]
async fn a_signature_of_one_padding_is_none_of_the_other() {
    let signer = Signer::rsa("rsa");
    let trial = Trial::new(&[&signer]).await;
    for (named, made) in [("RS256", "PS256"), ("PS256", "RS256")] {
        let header = json!({"alg": named, "kid": "rsa"}).to_string();
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(trial.issuer.claims().to_string().as_bytes()));
        let signature = signer.sign(made, signed.as_bytes());
        assert_eq!(refusal(&trial, &format!("{signed}.{}", encode(&signature))).await, Refusal::Signature);
    }
}

#[tokio::test]
async fn a_token_without_a_key_name_needs_exactly_one_key_that_fits() {
    let (rsa, curve, edwards, other) =
        (Signer::rsa("rsa"), Signer::p256("b"), Signer::ed25519("c"), Signer::ed25519("d"));
    let trial = Trial::new(&[&rsa, &curve, &edwards]).await;
    for signer in [&rsa, &curve, &edwards] {
        let token = signer.token_of(&json!({"alg": signer.algorithm()}), &trial.issuer.claims());
        trial.verify(&token).await.expect("a token of the only key of the type");
    }
    let token = edwards.token_of(&json!({"alg": "EdDSA"}), &trial.issuer.claims());
    let trial_of_two = Trial::new(&[&edwards, &other]).await;
    assert_eq!(refusal(&trial_of_two, &token).await, Refusal::AmbiguousKey);
    let trial_of_none = Trial::new(&[&rsa, &curve]).await;
    assert_eq!(refusal(&trial_of_none, &token).await, Refusal::UnknownKey);
    let same_name = Trial::new(&[&edwards, &Signer::ed25519("c")]).await;
    assert_eq!(refusal(&same_name, &edwards.token(&same_name.issuer.claims())).await, Refusal::AmbiguousKey);
}

#[tokio::test]
async fn algorithms_off_the_list_are_refused() {
    let signer = Signer::rsa("rsa");
    let trial = Trial::new(&[&signer]).await;
    trial.login(&signer).await.expect("a good token");
    let wrong = [
        json!("none"),
        json!("None"),
        json!("NONE"),
        json!(""),
        json!("HS256"),
        json!("HS512"),
        json!("RS384"),
        json!("RS512"),
        json!("ES384"),
        json!("ES256K"),
        json!("rs256"),
        json!("RS256 "),
        json!("RSA-OAEP"),
        json!("CANARY"),
        json!(["RS256"]),
        json!({"RS256": 1}),
        Value::Null,
        json!(256),
    ];
    for algorithm in wrong {
        let token = signer.token_of(&json!({"alg": algorithm, "kid": "rsa"}), &trial.issuer.claims());
        assert_eq!(refusal(&trial, &token).await, Refusal::Algorithm, "{algorithm}");
        let (signed, _) = token.rsplit_once('.').expect("three parts");
        assert_eq!(refusal(&trial, &format!("{signed}.")).await, Refusal::Algorithm, "{algorithm}");
    }
    let token = signer.token_of(&json!({"kid": "rsa"}), &trial.issuer.claims());
    assert_eq!(refusal(&trial, &token).await, Refusal::Algorithm);
}

#[tokio::test]
async fn a_public_key_is_no_secret_of_an_hmac() {
    use ring::hmac;
    let signer = Signer::rsa("rsa");
    let trial = Trial::new(&[&signer]).await;
    let jwk = signer.jwk();
    let modulus = jwk["n"].as_str().expect("a modulus").to_owned();
    for secret in [signer.public(), jwk.to_string().into_bytes(), modulus.into_bytes(), Vec::new()] {
        for named in ["HS256", "RS256"] {
            let header = json!({"alg": named, "kid": "rsa"}).to_string();
            let claims = trial.issuer.claims().to_string();
            let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
            let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), signed.as_bytes());
            let expected = if named == "HS256" { Refusal::Algorithm } else { Refusal::Signature };
            assert_eq!(refusal(&trial, &format!("{signed}.{}", encode(mac.as_ref()))).await, expected);
        }
    }
}

#[tokio::test]
async fn a_key_verifies_only_its_own_tokens() {
    let (mine, other, curve) = (Signer::ed25519("a"), Signer::ed25519("b"), Signer::p256("c"));
    let trial = Trial::new(&[&mine, &other, &curve]).await;
    let claims = trial.issuer.claims();
    // The name of another key of the same type, and of a key of another type.
    let token = mine.token_of(&json!({"alg": "EdDSA", "kid": "b"}), &claims);
    assert_eq!(refusal(&trial, &token).await, Refusal::Signature);
    for (algorithm, id) in [("EdDSA", "c"), ("ES256", "a"), ("RS256", "a"), ("EdDSA", "CANARY"), ("EdDSA", "")] {
        let token = mine.token_of(&json!({"alg": algorithm, "kid": id}), &claims);
        assert_eq!(refusal(&trial, &token).await, Refusal::UnknownKey, "{algorithm} {id}");
    }
    let stranger = Signer::ed25519("a");
    assert_eq!(refusal(&trial, &stranger.token(&claims)).await, Refusal::Signature);
    let token = mine.token_of(&json!({"alg": "EdDSA", "kid": 7}), &claims);
    assert_eq!(refusal(&trial, &token).await, Refusal::Malformed("the kid is not a string"));
}

#[tokio::test]
async fn a_keys_own_algorithm_and_use_bind() {
    let signer = Signer::rsa("rsa");
    let trial = Trial::new(&[]).await;
    for (name, value, algorithm, accepted) in [
        ("alg", json!("PS256"), "RS256", false),
        ("alg", json!("PS256"), "PS256", true),
        ("alg", json!("RS512"), "RS256", false),
        ("use", json!("enc"), "RS256", false),
        ("key_ops", json!(["sign"]), "RS256", false),
        ("key_ops", json!(["verify"]), "RS256", true),
        ("kty", json!("oct"), "RS256", false),
    ] {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        trial.issuer.publish_jwks(vec![jwk.clone()]);
        let verifier = trial.other_verifier();
        let token = signer.token_of(&json!({"alg": algorithm, "kid": "rsa"}), &trial.issuer.claims());
        let result = verifier.verify(&token).await.map(drop);
        assert_eq!(result, if accepted { Ok(()) } else { Err(Refusal::UnknownKey) }, "{jwk}");
    }
}

#[tokio::test]
async fn keys_and_addresses_in_a_header_are_ignored() {
    let (trial, signer) = trial().await;
    let stranger = Signer::ed25519("stranger");
    for id in [json!("a"), json!("stranger")] {
        let header = json!({
            "alg": "EdDSA",
            "kid": id,
            "jwk": stranger.jwk(),
            "jku": format!("{}/stranger", trial.issuer.url),
            "x5u": format!("{}/stranger", trial.issuer.url),
            "x5c": [encode(&stranger.public())],
        });
        let expected = if id == "a" { Refusal::Signature } else { Refusal::UnknownKey };
        assert_eq!(refusal(&trial, &stranger.token_of(&header, &trial.issuer.claims())).await, expected);
        if id == "a" {
            trial.verify(&signer.token_of(&header, &trial.issuer.claims())).await.expect("a good token");
        }
    }
    assert_eq!((trial.issuer.others(), trial.issuer.key_sets()), (0, 1));
}

#[tokio::test]
async fn changed_tokens_are_refused() {
    let (trial, signer) = trial().await;
    let token = signer.token(&trial.issuer.claims());
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims = trial.issuer.claims();
    claims["cloakwork_tenant"] = json!("CANARY");
    let payload = encode(claims.to_string().as_bytes());
    assert_eq!(refusal(&trial, &format!("{}.{payload}.{}", parts[0], parts[2])).await, Refusal::Signature);
    let header = encode(json!({"alg": "EdDSA", "kid": "a"}).to_string().as_bytes());
    assert_eq!(refusal(&trial, &format!("{header}.{}.{}", parts[1], parts[2])).await, Refusal::Signature);
    // An equal header with a blank at its end.
    let header = encode(format!("{} ", signer.header()).as_bytes());
    assert_eq!(refusal(&trial, &format!("{header}.{}.{}", parts[1], parts[2])).await, Refusal::Signature);
}

#[tokio::test]
async fn signatures_have_exactly_their_form() {
    let signers = [Signer::rsa("rsa"), Signer::p256("b"), Signer::ed25519("c")];
    let trial = Trial::new(&signers.each_ref()).await;
    for signer in &signers {
        let token = signer.token(&trial.issuer.claims());
        let (signed, _) = token.rsplit_once('.').expect("three parts");
        let good = signer.sign(signer.algorithm(), signed.as_bytes());
        let with = |signature: &[u8]| format!("{signed}.{}", encode(signature));
        trial.verify(&with(&good)).await.expect("a good token");
        let mut wrong = vec![
            Vec::new(),
            vec![0],
            good[1..].to_vec(),
            good[..good.len() - 1].to_vec(),
            [&good[..], &[0]].concat(),
            [&[0], &good[..]].concat(),
            [&good[..], &good[..]].concat(),
            vec![0; good.len()],
            vec![0xff; good.len()],
        ];
        for place in [0, good.len() / 2, good.len() - 1] {
            let mut flipped = good.clone();
            flipped[place] ^= 1;
            wrong.push(flipped);
        }
        for signature in wrong {
            assert_eq!(refusal(&trial, &with(&signature)).await, Refusal::Signature, "{}", signer.id);
        }
    }
    let token = signers[1].token(&trial.issuer.claims());
    let (signed, _) = token.rsplit_once('.').expect("three parts");
    let der = encode(&signers[1].sign_der(signed.as_bytes()));
    assert_eq!(refusal(&trial, &format!("{signed}.{der}")).await, Refusal::Signature, "DER");
}

#[tokio::test]
async fn each_text_has_one_encoding() {
    let (trial, signer) = trial().await;
    let token = signer.token(&trial.issuer.claims());
    let parts: Vec<&str> = token.split('.').collect();
    let encoding = Refusal::Malformed("a part is not base64url without padding");
    let three = Refusal::Malformed("three parts are expected");
    for (text, expected) in [
        (String::new(), &three),
        (".".to_owned(), &three),
        (parts[0].to_owned(), &three),
        (format!("{}.{}", parts[0], parts[1]), &three),
        (format!("{token}."), &three),
        (format!("{token}.{}", parts[2]), &three),
        (format!("{}.{token}", parts[0]), &three),
        (format!("{token}=="), &encoding),
        (format!("{token} "), &encoding),
        (format!(" {token}"), &encoding),
        (format!("{token}\n"), &encoding),
        (format!("{}.{} .{}", parts[0], parts[1], parts[2]), &encoding),
        (format!("{}.{}+/.{}", parts[0], parts[1], parts[2]), &encoding),
        (format!("é{token}"), &encoding),
        // A signature of 64 bytes leaves four bits of its last letter unused.
        (format!("{}{}", &token[..token.len() - 1], next_letter(&token)), &encoding),
        (format!("..{}", parts[2]), &Refusal::Malformed("the header is not an object of JSON")),
    ] {
        assert_eq!(&refusal(&trial, &text).await, expected, "{text}");
    }
}

/// The letter after the last one of a text, in the order of base64url.
fn next_letter(text: &str) -> char {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = LETTERS.find(text.chars().last().expect("a letter")).expect("a letter of base64url");
    LETTERS.chars().nth(place + 1).expect("a next letter")
}

#[tokio::test]
async fn sizes_have_limits() {
    let (trial, signer) = trial().await;
    // Fills a claim until the token has its size. Three bytes are four letters.
    let sized = |size: usize| {
        let mut claims = trial.issuer.claims();
        claims["more"] = json!("");
        let missing = size - signer.token(&claims).len();
        (missing * 3 / 4..).find_map(|filling| {
            claims["more"] = json!("a".repeat(filling));
            Some(signer.token(&claims)).filter(|token| token.len() >= size)
        })
    };
    let largest = sized((8 << 10) - 2).expect("a token");
    assert!(largest.len() <= 8 << 10, "{}", largest.len());
    trial.verify(&largest).await.expect("the largest token");
    let too_large = Refusal::TooLarge { bytes_max: 8 << 10 };
    assert_eq!(refusal(&trial, &sized((8 << 10) + 1).expect("a token")).await, too_large);
    assert_eq!(refusal(&trial, &"a".repeat(100 << 20)).await, too_large);
    assert_eq!(refusal(&trial, &".".repeat(8 << 10)).await, Refusal::Malformed("three parts are expected"));
    let header = json!({"alg": "EdDSA", "kid": "a", "more": "b".repeat(2 << 10)});
    let token = signer.token_of(&header, &trial.issuer.claims());
    assert_eq!(refusal(&trial, &token).await, Refusal::Malformed("the header is too large"));
}

#[tokio::test]
async fn nesting_has_a_limit() {
    let (trial, signer) = trial().await;
    let header = signer.header().to_string();
    let claims = trial.issuer.claims().to_string();
    let claims = claims.strip_suffix('}').expect("an object");
    let nested = |depth: usize| format!("{claims}, \"more\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    trial.verify(&signer.token_of_text(&header, &nested(100))).await.expect("a good token");
    let malformed = Refusal::Malformed("the claims are not an object of JSON");
    for text in [nested(2500), "[".repeat(5000), "{\"a\":".repeat(1000)] {
        assert_eq!(refusal(&trial, &signer.token_of_text(&header, &text)).await, malformed);
    }
    let malformed = Refusal::Malformed("the header is not an object of JSON");
    for text in ["[".repeat(2000), "{\"a\":".repeat(400)] {
        assert_eq!(refusal(&trial, &signer.token_of_text(&text, claims)).await, malformed);
    }
}

#[tokio::test]
async fn duplicate_members_are_refused_and_nested_ones_are_not_read() {
    let (trial, signer) = trial().await;
    let header = signer.header().to_string();
    let claims = trial.issuer.claims().to_string();
    let malformed = Refusal::Malformed("the claims are not an object of JSON");
    for more in [
        r#""cloakwork_tenant": "CANARY""#,
        r#""cloakwork\u005ftenant": "CANARY""#,
        r#""exp": 1"#,
        r#""email": "CANARY""#,
    ] {
        for text in [format!("{{{more},{}", &claims[1..]), format!("{},{more}}}", &claims[..claims.len() - 1])] {
            assert_eq!(refusal(&trial, &signer.token_of_text(&header, &text)).await, malformed, "{text}");
        }
    }
    let malformed = Refusal::Malformed("the header is not an object of JSON");
    for more in [r#""alg": "none""#, r#""kid": "a""#, r#""\u0061lg": "EdDSA""#, r#""alg": "EdDSA""#] {
        let text = format!("{{{more},{}", &header[1..]);
        assert_eq!(refusal(&trial, &signer.token_of_text(&text, &claims)).await, malformed, "{text}");
    }
    let nested = format!("{{\"more\": {{\"exp\": 1, \"exp\": 2}},{}", &claims[1..]);
    trial.verify(&signer.token_of_text(&header, &nested)).await.expect("a good token");
}

#[tokio::test]
async fn parts_that_are_no_objects_are_refused() {
    let (trial, signer) = trial().await;
    let (header, claims) = (signer.header().to_string(), trial.issuer.claims().to_string());
    for text in ["", "null", "1", "\"a\"", "[]", "{", &claims[1..], &format!("{claims}{claims}"), &format!("{claims},")]
    {
        let refused = refusal(&trial, &signer.token_of_text(&header, text)).await;
        assert_eq!(refused, Refusal::Malformed("the claims are not an object of JSON"), "{text}");
        let refused = refusal(&trial, &signer.token_of_text(text, &claims)).await;
        let is_object = text.starts_with('{') && serde_json::from_str::<Value>(text).is_ok();
        assert!(!is_object && refused == Refusal::Malformed("the header is not an object of JSON"), "{text}");
    }
}

#[tokio::test]
async fn types_and_extensions_are_checked() {
    let (trial, signer) = trial().await;
    let with = |name: &str, value: Value| {
        let mut header = signer.header();
        header[name] = value;
        signer.token_of(&header, &trial.issuer.claims())
    };
    for right in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/jwt", "application/at+jwt"] {
        trial.verify(&with("typ", json!(right))).await.expect(right);
    }
    for wrong in
        [json!("logout+jwt"), json!("dpop+jwt"), json!("JOSE"), json!(""), json!("CANARY"), json!(1), Value::Null]
    {
        assert_eq!(refusal(&trial, &with("typ", wrong.clone())).await, Refusal::Type, "{wrong}");
    }
    for extensions in [json!(["exp"]), json!(["b64"]), json!([]), json!("CANARY"), Value::Null] {
        assert_eq!(refusal(&trial, &with("crit", extensions.clone())).await, Refusal::Critical, "{extensions}");
    }
}

#[tokio::test]
async fn issuer_and_audience_are_exact() {
    let (trial, signer) = trial().await;
    let url = trial.issuer.url.clone();
    for wrong in [
        json!(format!("{url}/")),
        json!(format!("{url}2")),
        json!(url.to_uppercase()),
        json!("https://CANARY.example.org"),
        json!(""),
    ] {
        assert_eq!(with_claim(&trial, &signer, "iss", wrong.clone()).await, Err(Refusal::Issuer), "{wrong}");
    }
    assert_eq!(with_claim(&trial, &signer, "iss", json!([url])).await, claim("iss"));
    for right in [json!("cloakwork"), json!(["account", "cloakwork"]), json!(["cloakwork", "cloakwork"])] {
        assert_eq!(with_claim(&trial, &signer, "aud", right.clone()).await, Ok(()), "{right}");
    }
    for wrong in [
        json!("cloakwork2"),
        json!("cloak"),
        json!("Cloakwork"),
        json!("account cloakwork"),
        json!(""),
        json!([]),
        json!(["account", "CANARY"]),
    ] {
        assert_eq!(with_claim(&trial, &signer, "aud", wrong.clone()).await, Err(Refusal::Audience), "{wrong}");
    }
    for wrong in [json!(1), json!({"cloakwork": 1}), json!(["cloakwork", 1]), json!([["cloakwork"]]), Value::Null] {
        assert_eq!(with_claim(&trial, &signer, "aud", wrong.clone()).await, claim("aud"), "{wrong}");
    }
}

#[tokio::test]
async fn times_are_checked_to_the_second() {
    let (trial, signer) = trial().await;
    for (name, value, expected) in [
        ("exp", json!(NOW + 1), Ok(())),
        ("exp", json!(NOW as f64 + 0.5), Ok(())),
        ("exp", json!(NOW), Err(Refusal::Expired)),
        ("exp", json!(NOW - 1), Err(Refusal::Expired)),
        ("exp", json!(0), Err(Refusal::Expired)),
        ("exp", json!(NOW + 24 * HOUR), Ok(())),
        ("exp", json!(NOW + 24 * HOUR + 1), Err(Refusal::Life { hours_max: 24 })),
        ("exp", json!(NOW * 1000), claim("exp")),
        ("nbf", json!(NOW + 60), Ok(())),
        ("nbf", json!(0), Ok(())),
        ("nbf", json!(NOW + 61), Err(Refusal::NotYetValid)),
        ("iat", json!(NOW + 60), Ok(())),
        ("iat", json!(NOW + 61), Err(Refusal::IssuedLater)),
        ("iat", json!(NOW + 300 - 24 * HOUR), Ok(())),
        ("iat", json!(NOW + 299 - 24 * HOUR), Err(Refusal::Life { hours_max: 24 })),
        ("iat", json!(0), Err(Refusal::Life { hours_max: 24 })),
    ] {
        assert_eq!(with_claim(&trial, &signer, name, value.clone()).await, expected, "{name} {value}");
    }
    for name in ["exp", "iat", "nbf"] {
        for wrong in [
            json!(-1),
            json!(-0.5),
            json!(1e300),
            json!(u64::MAX),
            json!(253_402_300_800_u64),
            json!("1800000100"),
            json!([NOW]),
            json!(true),
            Value::Null,
        ] {
            assert_eq!(with_claim(&trial, &signer, name, wrong.clone()).await, claim(name), "{name} {wrong}");
        }
    }
}

#[tokio::test]
async fn a_token_expires_while_time_passes() {
    let (trial, signer) = trial().await;
    let token = signer.token(&trial.issuer.claims());
    trial.advance_seconds(299);
    trial.verify(&token).await.expect("a good token");
    trial.advance_seconds(1);
    assert_eq!(refusal(&trial, &token).await, Refusal::Expired);
}

#[tokio::test]
async fn claims_are_complete() {
    let (trial, signer) = trial().await;
    for name in ["iss", "aud", "exp", "iat", "sub", "cloakwork_tenant", "cloakwork_scopes"] {
        assert_eq!(without_claim(&trial, &signer, name).await, Err(Refusal::Missing(name.to_owned())));
    }
    assert_eq!(without_claim(&trial, &signer, "nbf").await, Ok(()));
    for name in ["sub", "cloakwork_tenant"] {
        for wrong in [json!(""), json!(1), json!(["CANARY"]), json!({"CANARY": "CANARY"}), Value::Null] {
            assert_eq!(with_claim(&trial, &signer, name, wrong.clone()).await, claim(name), "{name} {wrong}");
        }
    }
    assert_eq!(with_claim(&trial, &signer, "sub", json!("a".repeat(255))).await, Ok(()));
    assert_eq!(with_claim(&trial, &signer, "sub", json!("a".repeat(256))).await, claim("sub"));
}

#[tokio::test]
async fn scopes_are_one_string_or_an_array() {
    let (trial, signer) = trial().await;
    let names: Vec<String> = (0..17).map(|number| format!("scope{number}")).collect();
    for (value, expected) in [
        (json!("jobs"), vec!["jobs"]),
        (json!("  jobs   read "), vec!["jobs", "read"]),
        (json!(""), vec![]),
        (json!([]), vec![]),
        (json!(["jobs", "read"]), vec!["jobs", "read"]),
        (json!(names[..16].join(" ")), names[..16].iter().map(String::as_str).collect()),
        (json!(names[..16]), names[..16].iter().map(String::as_str).collect()),
    ] {
        let mut claims = trial.issuer.claims();
        claims["cloakwork_scopes"] = value;
        assert_eq!(trial.verify(&signer.token(&claims)).await.expect("a good token").scopes, expected);
    }
    for wrong in [
        json!(names.join(" ")),
        json!(names),
        json!(["jobs read"]),
        json!(["jobs", ""]),
        json!(["jobs", 1]),
        json!([["jobs"]]),
        json!("jobs\tread"),
        json!("jobs\u{a0}read"),
        json!("jöbs"),
        json!({"jobs": true}),
        json!(1),
        Value::Null,
    ] {
        assert_eq!(
            with_claim(&trial, &signer, "cloakwork_scopes", wrong.clone()).await,
            claim("cloakwork_scopes"),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn the_options_name_the_claims() {
    let signer = Signer::ed25519("a");
    let trial = Trial::new(&[&signer]).await;
    let mut options = trial.issuer.options();
    options.tenant_claim = "azp".to_owned();
    options.scopes_claim = "scope".to_owned();
    let verifier = cloakwork_oidc::Issuer::new(options, trial.clock.clock()).expect("an issuer");
    let mut claims = claims_of(&trial.issuer.url);
    claims["azp"] = json!("other");
    claims["scope"] = json!("openid jobs");
    let accepted = verifier.verify(&signer.token(&claims)).await.expect("a good token");
    assert_eq!((&*accepted.tenant, accepted.scopes), ("other", vec!["openid".to_owned(), "jobs".to_owned()]));
    let refused = verifier.verify(&signer.token(&trial.issuer.claims())).await.expect_err("no claim azp");
    assert_eq!(refused, Refusal::Missing("azp".to_owned()));
}
