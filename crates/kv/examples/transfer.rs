//! Four tellers move money between accounts at once; nobody is overdrawn, and no money appears or goes.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::thread;

use futures::executor::block_on;
use spanlatch_kv::{Attempt, Db, Error};
use spanlatch_replica::{Request, Store, Value};
use spanset::{Key, Span};

const ACCOUNTS: u64 = 10;

/// Why money is not moved. Errors of the transaction pass through.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the account holds only {0}")]
    Overdrawn(u64),
    #[error(transparent)]
    Txn(#[from] Error),
}

impl spanlatch_kv::TxnError for Refusal {
    fn as_txn_error(&self) -> Option<&Error> {
        match self {
            Refusal::Txn(error) => Some(error),
            Refusal::Overdrawn(_) => None,
        }
    }
}

fn account(number: u64) -> Key {
    format!("account/{number}").into()
}

fn amount(value: Option<Value>) -> u64 {
    let digits = value.map(|value| String::from_utf8_lossy(&value).into_owned());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

async fn transfer(txn: Attempt, from: Key, to: Key, sum: u64) -> Result<(), Refusal> {
    let has = amount(txn.get(from.clone()).await?);
    let left = has.checked_sub(sum).ok_or(Refusal::Overdrawn(has))?;
    let gets = amount(txn.get(to.clone()).await?) + sum;
    txn.put(from, left.to_string())?;
    txn.put(to, gets.to_string())?;
    Ok(())
}

fn main() -> Result<(), Error> {
    let (store, applier) = Store::new();
    let applier = thread::spawn(move || applier.run());
    let db = Db::new(store);
    for number in 0..ACCOUNTS {
        block_on(db.put(account(number), "100"))?;
    }

    let teller = |teller: u64| {
        let (mut moved, mut refused) = (0, 0);
        for i in 0..200 {
            let (from, to) = (account(i * 7 % ACCOUNTS), account((i + teller) % ACCOUNTS));
            if from == to {
                continue;
            }
            let done =
                block_on(db.txn(async |txn| transfer(txn, from.clone(), to.clone(), 30).await));
            match done {
                Ok(()) => moved += 1,
                Err(Refusal::Overdrawn(_)) => refused += 1,
                Err(Refusal::Txn(error)) => return Err(error),
            }
        }
        Ok((moved, refused))
    };
    thread::scope(|scope| {
        let tellers: Vec<_> = (1..5).map(|i| scope.spawn(move || teller(i))).collect();
        for (i, teller) in tellers.into_iter().enumerate() {
            let (moved, refused) = teller.join().expect("no teller panics")?;
            println!("teller {i} moved {moved} times, and refused {refused}");
        }
        Ok::<_, Error>(())
    })?;

    let accounts = Span::range("account/", "account0").expect("it is not empty");
    let rows = block_on(db.scan(accounts, Request::UNLIMITED))?;
    let total: u64 = rows.into_iter().map(|(_, value)| amount(Some(value))).sum();
    println!("together they hold {total}");
    assert_eq!(total, 100 * ACCOUNTS);

    drop(db);
    applier.join().expect("the applier ends with its store");
    Ok(())
}
