//! Three nodes on loopback, in this process and in memory; a client that goes on when the leader is gone.
//!
//! Run with `cargo run -p spanlatch-replica-raft --example three_nodes`.

#![allow(clippy::print_stdout, reason = "to be seen")]

use std::collections::BTreeMap;
use std::error::Error;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use spanlatch_replica::{MemEngine, Request, Response, Serve};
use spanlatch_replica_raft::{Client, Config, Node, Server, Tcp};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut servers = BTreeMap::new();
    for id in 1..=3 {
        servers.insert(id, Server::bind("127.0.0.1:0").await?);
    }
    let address = |(&id, server): (&u64, &Server)| (id, server.address().to_string());
    let peers: BTreeMap<u64, String> = servers.iter().map(address).collect();

    let mut nodes = BTreeMap::new();
    for (id, server) in servers {
        let engine = Arc::new(MemEngine::outliving_stores());
        let transport = Arc::new(Tcp::new(id, &peers));
        let config = Config::new(id, peers.clone(), engine, transport, Default::default());
        let node = Node::start(config).await?;
        tokio::spawn(server.serve(node.clone(), pending()));
        nodes.insert(id, node);
    }

    let client = Client::new(&peers);
    for (count, value) in ["one", "two", "three"].into_iter().enumerate() {
        client.send(Request::put("greeting", value).into()).await?;
        let reply = client.send(Request::get("greeting").into()).await?;
        let Some(Response::Value(Some(read))) = reply.responses.into_iter().next() else {
            return Err("the value is gone".into());
        };
        let Some((&leader, node)) = nodes.iter().find(|(_, node)| node.status().serves) else {
            return Err("nobody leads".into());
        };
        println!(
            "node {leader} leads, and the greeting is {:?}",
            String::from_utf8_lossy(&read)
        );
        // Two of three are enough; one is not.
        if count == 0 {
            node.shut_down(Duration::from_secs(1)).await;
            nodes.remove(&leader);
        }
    }
    Ok(())
}
