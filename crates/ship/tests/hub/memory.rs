//! A hub in memory.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tacho_ship::protocol::digest::{Before, ContentDigest};
use tacho_ship::protocol::errors::{Code, ErrorBody};
use tacho_ship::protocol::{FileName, Heartbeat, names};

pub const TOKEN: &str = "secret";

type Files = BTreeMap<String, Vec<u8>>;

#[derive(Default)]
struct HubMemory {
    /// Of each generation.
    generations: Vec<Files>,
    /// Bodies that were taken: file and length.
    taken: Vec<(String, usize)>,
    body_bytes: u64,
    failures: VecDeque<(u16, String)>,
    answers_to_lose: u32,
    /// Before the next `PUT` with bytes.
    cuts: Vec<(String, usize)>,
    heartbeat: Option<Heartbeat>,
    generation_request: Value,
}

/// Serves until the test ends.
pub struct MemoryHub {
    address: SocketAddr,
    state: Arc<Mutex<HubMemory>>,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl MemoryHub {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(HubMemory {
            generations: vec![Files::new()],
            ..HubMemory::default()
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    fn state(&self) -> MutexGuard<'_, HubMemory> {
        self.state.lock().unwrap()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A file of the current generation.
    pub fn file(&self, name: &str) -> Vec<u8> {
        self.state().generations.last().unwrap().get(name).cloned().unwrap_or_default()
    }

    pub fn file_of(&self, generation: usize, name: &str) -> Vec<u8> {
        self.state().generations[generation - 1].get(name).cloned().unwrap_or_default()
    }

    pub fn names(&self) -> Vec<String> {
        self.state().generations.last().unwrap().keys().cloned().collect()
    }

    pub fn generation(&self) -> usize {
        self.state().generations.len()
    }

    pub fn taken(&self) -> Vec<(String, usize)> {
        self.state().taken.clone()
    }

    pub fn taken_bytes(&self) -> usize {
        self.state().taken.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of bodies as they were sent.
    pub fn body_bytes(&self) -> u64 {
        self.state().body_bytes
    }

    pub fn heartbeat(&self) -> Heartbeat {
        self.state().heartbeat.clone().unwrap()
    }

    pub fn generation_request(&self) -> Value {
        self.state().generation_request.clone()
    }

    /// Answers one of the next `PUT`s like this.
    pub fn fail_next(&self, status: u16, body: &str) {
        self.state().failures.push_back((status, body.to_owned()));
    }

    /// Does what the next `PUT`s with bytes want, and closes the connection without an answer.
    pub fn lose_answers(&self, count: u32) {
        self.state().answers_to_lose = count;
    }

    /// Loses the end of a file.
    pub fn cut(&self, name: &str, length: usize) {
        self.state().generations.last_mut().unwrap().get_mut(name).unwrap().truncate(length);
    }

    /// Loses the end of a file before the next `PUT` with bytes.
    pub fn cut_before_next_put(&self, name: &str, length: usize) {
        self.state().cuts.push((name.to_owned(), length));
    }
}

fn serve(stream: TcpStream, state: &Mutex<HubMemory>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = receive(&mut reader) {
        let mut state = state.lock().unwrap();
        let is_put = request.method == "PUT" && !request.body.is_empty();
        let (status, body) = state.answer(&request);
        if is_put && state.answers_to_lose > 0 {
            state.answers_to_lose -= 1;
            return;
        }
        let body = body.to_string();
        let retry = if status == 503 { "Retry-After: 0\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status} X\r\n{retry}Content-Length: {}\r\n\r\n", body.len());
        if writer.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn receive(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path: path.to_owned(), query, headers, body })
}

fn refuse(code: Code, message: &str) -> (u16, Value) {
    (code.status(), serde_json::to_value(ErrorBody::new(code, message)).unwrap())
}

impl HubMemory {
    fn answer(&mut self, request: &Request) -> (u16, Value) {
        if request.headers.get("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return refuse(Code::Token, "no such token");
        }
        assert!(names::is_instance(&request.headers["tacho-instance"]));
        let rest = request.path.strip_prefix("/api/v1/origins/db1").unwrap();
        match (request.method.as_str(), rest) {
            ("GET", "") => (200, self.origin()),
            ("POST", "/heartbeat") => {
                self.heartbeat = Some(serde_json::from_slice(&request.body).unwrap());
                (200, json!({ "generation": self.generations.len(), "time_us": 1 }))
            }
            ("POST", "/generations") => {
                self.generation_request = serde_json::from_slice(&request.body).unwrap();
                self.fork();
                (201, self.origin())
            }
            ("PUT", name) => self.put(name.strip_prefix("/files/").unwrap(), request),
            other => panic!("no such request: {other:?}"),
        }
    }

    fn origin(&self) -> Value {
        let files = self.generations.last().unwrap().iter();
        let files: Vec<_> =
            files.map(|(name, bytes)| json!({ "name": name, "offset": bytes.len() })).collect();
        let generation = self.generations.len();
        json!({ "protocol": 1, "origin": "db1", "generation": generation, "files": files })
    }

    fn fork(&mut self) {
        let file: FileName = self.generation_request["file"].as_str().unwrap().parse().unwrap();
        let mut files = self.generations.last().unwrap().clone();
        files.retain(|name, _| {
            let name: FileName = name.parse().unwrap();
            name.stem().is_some_and(|stem| file.stem().is_none_or(|first| stem < first))
        });
        self.generations.push(files);
    }

    fn put(&mut self, name: &str, request: &Request) -> (u16, Value) {
        if let Some((status, body)) = self.failures.pop_front() {
            return (status, serde_json::from_str(&body).unwrap_or(Value::String(body)));
        }
        let _: FileName = name.parse().unwrap();
        assert_eq!(request.headers["content-digest"].parse(), Ok(ContentDigest::of(&request.body)));
        let body = match request.headers.get("content-encoding").map(String::as_str) {
            Some("zstd") => zstd::decode_all(&request.body[..]).unwrap(),
            None => request.body.clone(),
            Some(other) => panic!("coding {other}"),
        };
        if !body.is_empty() {
            for (name, length) in std::mem::take(&mut self.cuts) {
                self.generations.last_mut().unwrap().get_mut(&name).unwrap().truncate(length);
            }
        }
        let generation = self.generations.len();
        assert_eq!(request.query["generation"], generation.to_string());
        let offset: usize = request.query["offset"].parse().unwrap();
        let file = self.generations.last_mut().unwrap().entry(name.to_owned()).or_default();
        let durable = file.len();
        let conflict = |code: Code| {
            let mut error = ErrorBody::new(code, "see the offset");
            error.offset = Some(durable as u64);
            error.generation = Some(generation as u64);
            (code.status(), serde_json::to_value(error).unwrap())
        };
        if offset > durable {
            return conflict(Code::Offset);
        }
        if offset > 0 {
            let begin = offset - usize::try_from(Before::length(offset as u64)).unwrap();
            if request.headers["tacho-before"].parse() != Ok(Before::of(&file[begin..offset])) {
                return conflict(Code::Contradiction);
            }
        }
        let known = body.len().min(durable - offset);
        if file[offset..offset + known] != body[..known] {
            return conflict(Code::Contradiction);
        }
        file.extend_from_slice(&body[known..]);
        let length = file.len();
        if !body.is_empty() {
            self.taken.push((name.to_owned(), body.len()));
            self.body_bytes += request.body.len() as u64;
        }
        (200, json!({ "generation": generation, "offset": length }))
    }
}
