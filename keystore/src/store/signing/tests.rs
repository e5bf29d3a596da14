//! The signatures are those of the client library and of AWS's own examples.

use object_store::{aws::AwsAuthorizer, client::HttpRequestBody};
use reqwest::Method;

use super::*;

fn request(method: Method, url: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = method;
    *request.uri_mut() = url.parse().expect("a URL");
    for (name, value) in headers {
        request.headers_mut().append(*name, HeaderValue::from_str(value).expect("text"));
    }
    request
}

fn credential(token: Option<&str>) -> AwsCredential {
    AwsCredential {
        key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        token: token.map(str::to_owned),
    }
}

fn authorization(request: &HttpRequest) -> &str {
    request.headers()[AUTHORIZATION].to_str().expect("text")
}

/// Examples of the S3 API reference, chapter "Signature Calculations for the Authorization Header".
#[test]
fn the_examples_of_aws_have_their_signatures() {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let now = DateTime::from_timestamp(1_369_353_600, 0).expect("24 May 2013");
    let signed = |headers: &str| Signed {
        region: "us-east-1".to_owned(),
        service: "s3".to_owned(),
        headers: headers.to_owned(),
    };
    for (path, headers, names, signature) in [
        (
            "test.txt",
            &[("range", "bytes=0-9"), (BODY_DIGEST, EMPTY)][..],
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "?lifecycle",
            &[(BODY_DIGEST, EMPTY)],
            "host;x-amz-content-sha256;x-amz-date",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "?max-keys=2&prefix=J",
            &[(BODY_DIGEST, EMPTY)],
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let url = format!("https://examplebucket.s3.amazonaws.com/{path}");
        let mut request = request(Method::GET, &url, headers);
        sign(&mut request, &signed(names), &credential(None), now).expect("text");
        let id = "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request";
        let expected = format!("{ALGORITHM} Credential={id}, SignedHeaders={names}, Signature={signature}");
        assert_eq!(authorization(&request), expected, "{path}");
    }
}

/// At the time of the client library, the signature is that of the client library.
#[test]
fn a_second_signature_is_the_first_one_at_the_same_time() {
    let urls = [
        "http://127.0.0.1:9000/bucket/alice/ab/abcd-0000000000000001",
        "http://store.example/bucket?list-type=2&prefix=cloakwork%2Fblobs%2F&continuation-token=a%2Bb%3D%3D",
        "https://store.example:443/bucket/a%20b?uploads",
        "https://store.example/bucket/x?uploadId=a~b_c.d&partNumber=12&a=2&a-b=1&a=1",
        "https://store.example/bucket?prefix=a+b%26%C3%A9*",
    ];
    for (url, token) in urls.iter().flat_map(|url| [(url, None), (url, Some("a-token"))]) {
        let headers = [("range", "bytes=5-"), ("x-amz-meta-note", "  two   words "), ("x-amz-meta-note", "again")];
        let mut request = request(Method::PUT, url, &headers);
        let credential = credential(token);
        AwsAuthorizer::new(&credential, "s3", "eu-north-1").try_authorize(&mut request, None).expect("signed");
        let first = authorization(&request).to_owned();
        let time = request.headers()[DATE].to_str().expect("text");
        let now = chrono::NaiveDateTime::parse_from_str(time, "%Y%m%dT%H%M%SZ").expect("a time").and_utc();
        let signed = Signed::parse(&request.headers()[AUTHORIZATION]).expect("a signature");
        sign(&mut request, &signed, &credential, now).expect("text");
        assert_eq!(authorization(&request), first, "{url}");
        for other in [self::credential(None), self::credential(Some("another-token"))] {
            sign(&mut request, &signed, &other, now).expect("text");
            let again = Signed::parse(&request.headers()[AUTHORIZATION]).expect("a signature");
            assert_eq!(again.headers.contains(TOKEN), other.token.is_some());
            assert_eq!(request.headers().contains_key(TOKEN), other.token.is_some());
        }
        let later = now + chrono::TimeDelta::hours(1);
        sign(&mut request, &signed, &credential, later).expect("text");
        assert_ne!(authorization(&request), first, "{url}");
        assert_eq!(request.headers()[DATE], *later.format("%Y%m%dT%H%M%SZ").to_string());
    }
}

#[test]
fn only_signatures_of_this_version_are_replaced() {
    let parse = |text: &'static str| Signed::parse(&HeaderValue::from_static(text));
    let signed = parse(
        "AWS4-HMAC-SHA256 Credential=i/d/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=1",
    );
    let expected =
        Signed { region: "us-east-1".to_owned(), service: "s3".to_owned(), headers: "host;x-amz-date".to_owned() };
    assert_eq!(signed, Some(expected));
    for other in ["Bearer Credential=a/b/c/d/e", "AWS4-HMAC-SHA256 Credential=a/b/c/d/e", "AWS4-HMAC-SHA256", ""] {
        assert_eq!(parse(other), None, "{other}");
    }
}
