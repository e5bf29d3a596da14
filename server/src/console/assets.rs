//! The files of the console, which are part of the program.

use axum::{
    extract::Path,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION},
    },
    response::{IntoResponse as _, Response},
};

/// The files, by their paths below `/console/`.
mod built {
    include!(concat!(env!("OUT_DIR"), "/console.rs"));
}

/// The page of a program without the console.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><title>Cloakwork</title><h1>The console is not part of this program</h1>\
    <p>Run <code>server/console/build.sh</code>, which needs npm, and build the server again.</p></html>";

/// Files whose names change with their content.
const HASHED: &str = "assets/";

pub(super) async fn redirect() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "/console/")]).into_response()
}

pub(super) async fn index() -> Response {
    match find("index.html") {
        Some(bytes) => answer("index.html", bytes),
        None => ([(CONTENT_TYPE, "text/html; charset=utf-8")], NOT_BUILT).into_response(),
    }
}

pub(super) async fn file(Path(path): Path<String>) -> Response {
    match find(&path) {
        Some(bytes) => answer(&path, bytes),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn find(name: &str) -> Option<&'static [u8]> {
    built::FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

fn answer(name: &str, bytes: &'static [u8]) -> Response {
    let kind = match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    };
    let caching = if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, caching)], bytes).into_response()
}
