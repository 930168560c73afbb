//! How proposals end.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use openraft::error::ForwardToLeader;
use openraft::raft::ClientWriteResponse;
use openraft::{BasicNode, LogId};
use spanlatch::Manager;
use spanlatch_replica::{Proposer, Reply, Request, Store};
use spanset::Key;

use super::*;
use crate::command::Effect;
use crate::types::LeaderId;

/// Keeps proposals.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Proposal>>>);

impl Proposer for Kept {
    fn propose(&self, proposal: Proposal) {
        self.0.lock().push(proposal);
    }

    fn shut_down(&self) {}
}

/// A put on its way, and who waits for it.
struct Scene {
    store: Store,
    put: Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>,
    command: Command,
    answering: Option<Answering>,
}

impl Scene {
    fn new() -> Self {
        let kept = Kept::default();
        let store = Store::builder().build_proposing(Arc::new(kept.clone()), |_| Manager::new());
        let batch = Request::put(Key::from("a"), "1");
        let mut put = Box::pin({
            let store = store.clone();
            async move { store.send(batch).await }
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(put.as_mut().poll(&mut context).is_pending());
        let flight = Flight::new(mem::take(&mut kept.0.lock()), Vec::new(), None);
        let command = Command::new(LeaderId::new(1, 1), Effect::Begin).with(flight);
        let (command, answering, ()) = Answering::from_app_data(command);
        Self {
            store,
            put,
            command,
            answering: Some(answering),
        }
    }

    fn append(&self) {
        self.command.passage.as_ref().unwrap().append();
    }

    fn answer(&mut self, result: ClientWriteResult<TypeConfig>) {
        self.answering.take().unwrap().send(result);
    }

    /// What the caller is told. Its latches are gone then.
    fn end(mut self) -> Result<Reply, Error> {
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(end) = self.put.as_mut().poll(&mut context) else {
            panic!("it has not ended");
        };
        assert!(self.store.is_idle());
        end
    }
}

fn applied(data: Applied) -> ClientWriteResult<TypeConfig> {
    Ok(ClientWriteResponse {
        log_id: LogId::new(LeaderId::new(1, 1), 1),
        data,
        membership: None,
    })
}

fn forward() -> ClientWriteResult<TypeConfig> {
    let forward = ForwardToLeader::new(2, BasicNode::new("there"));
    Err(ClientWriteError::ForwardToLeader(forward))
}

#[test]
fn what_is_applied_is_acknowledged() {
    let mut scene = Scene::new();
    scene.append();
    scene.answer(applied(Applied::Done));
    scene.end().unwrap();
}

#[test]
fn what_another_leadership_appended_has_failed() {
    let mut scene = Scene::new();
    scene.append();
    scene.answer(applied(Applied::Stale));
    let end = scene.end();
    assert!(matches!(end, Err(Error::NotLeader { .. })), "{end:?}");
}

#[test]
fn what_was_refused_has_failed_and_the_leader_is_named() {
    let mut scene = Scene::new();
    scene.answer(forward());
    let end = scene.end();
    let Err(Error::NotLeader {
        leader: Some(leader),
    }) = end
    else {
        panic!("{end:?}");
    };
    assert_eq!(&*leader, "there");
}

#[test]
fn what_was_removed_from_the_log_may_still_be_applied_by_others() {
    let mut scene = Scene::new();
    scene.append();
    scene.answer(forward());
    let end = scene.end();
    assert!(
        matches!(end, Err(Error::Ambiguous(Cause::LeadershipOver))),
        "{end:?}"
    );
}

#[test]
fn when_openraft_ends_without_an_answer_it_depends_on_the_log() {
    let mut scene = Scene::new();
    drop(scene.answering.take());
    let end = scene.end();
    assert!(matches!(end, Err(Error::NotLeader { .. })), "{end:?}");

    let mut scene = Scene::new();
    scene.append();
    drop(scene.answering.take());
    let end = scene.end();
    assert!(matches!(end, Err(Error::Ambiguous(_))), "{end:?}");
}

#[test]
fn when_a_leadership_ends_nobody_knows_of_what_was_sent() {
    let scene = Scene::new();
    let flight = scene.answering.as_ref().unwrap().0.clone().unwrap();
    flight.abandon();
    let end = scene.end();
    assert!(matches!(end, Err(Error::Ambiguous(_))), "{end:?}");
}
