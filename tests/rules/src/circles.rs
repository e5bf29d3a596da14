//! Cyclic dependencies (circles) between the top-level modules of a crate, direct or indirect.
//!
//! A top-level module with everything below it is called a room: `edge.rs` and `edge/*` are the
//! room `edge`. Files of one room may use each other in any way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Names of modules from the crate's root. The root itself is empty.
type Module = Vec<String>;

/// The circles of the crate whose sources lie in `directory`, each as the sorted names of its
/// rooms.
pub fn circles(directory: &Path) -> Vec<Vec<String>> {
    let mut sources = BTreeMap::new();
    collect(directory, &mut Vec::new(), &mut sources);
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, source) in &sources {
        for used in used_modules(module, source, &sources) {
            if let (Some(room), Some(other)) = (module.first(), used.first())
                && room != other
            {
                uses.entry(room.clone()).or_default().insert(other.clone());
            }
        }
    }
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|room| (room, reachable(room, &uses))).collect();
    let is_mutual = |a: &String, b: &String| reached.get(b).is_some_and(|from_b| from_b.contains(a));
    let mut circles = BTreeSet::new();
    for (room, from_room) in &reached {
        if from_room.contains(room) {
            circles.insert(
                from_room.iter().filter(|other| is_mutual(room, other)).map(|other| (*other).clone()).collect(),
            );
        }
    }
    circles.into_iter().collect()
}

fn reachable<'u>(room: &String, uses: &'u BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'u String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = uses[room].iter().collect();
    while let Some(room) = next.pop() {
        if reached.insert(room) {
            next.extend(uses.get(room).into_iter().flatten());
        }
    }
    reached
}

/// Reads the modules of a directory. Modules of tests are left out: they may use anything.
fn collect(directory: &Path, module: &mut Module, sources: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8").to_owned();
        if name == "tests" || name.starts_with("test_") || name == "bin" {
            continue;
        }
        if path.is_dir() {
            module.push(name);
            collect(&path, module, sources);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut own = module.clone();
            if !["lib", "main"].contains(&name.as_str()) {
                own.push(name);
            }
            let source = fs::read_to_string(&path).expect("a readable source file");
            sources.insert(own, without_comments_and_tests(&source));
        }
    }
}

fn without_comments_and_tests(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The modules that a file names in paths that begin with `crate`, `super`, `self` or a module of
/// its own.
fn used_modules(module: &Module, source: &str, sources: &BTreeMap<Module, String>) -> Vec<Module> {
    let mut paths = Vec::new();
    for statement in source.split(';') {
        if let Some((_, tree)) = statement.rsplit_once("use ") {
            let tree: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
            expand("", &tree, &mut paths);
        }
    }
    for start in ["crate::", "super::"] {
        for (index, _) in source.match_indices(start) {
            let end = source[index..].find(|c: char| !c.is_alphanumeric() && c != ':' && c != '_');
            paths.push(source[index..end.map_or(source.len(), |end| index + end)].to_owned());
        }
    }
    paths.iter().filter_map(|path| resolve(module, path, sources)).collect()
}

/// Lists the paths of a tree of imports, such as `a::{b, c::{d, e}}`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let (mut depth, mut begin) = (0, 0);
    let mut pieces = Vec::new();
    for (index, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(&tree[begin..index]);
                begin = index + 1;
            }
            _ => {}
        }
    }
    pieces.push(&tree[begin..]);
    for piece in pieces.iter().map(|piece| piece.trim()).filter(|piece| !piece.is_empty()) {
        match piece.split_once('{') {
            Some((head, rest)) => {
                let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
                expand(&format!("{prefix}{head}"), inner, paths);
            }
            None => paths.push(format!("{prefix}{}", piece.split(" as ").next().unwrap_or(piece))),
        }
    }
}

/// The longest module that a path names, seen from `module`.
fn resolve(module: &Module, path: &str, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut at = match parts.peek().copied()? {
        "crate" => {
            parts.next();
            Module::new()
        }
        "self" => {
            parts.next();
            module.clone()
        }
        "super" => {
            let mut at = module.clone();
            while parts.next_if_eq(&"super").is_some() {
                at.pop();
            }
            at
        }
        name => {
            let mut own = module.clone();
            own.push(name.to_owned());
            sources.get(&own)?;
            module.clone()
        }
    };
    for part in parts {
        at.push(part.to_owned());
        if !sources.contains_key(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}
