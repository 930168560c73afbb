//! Money moves between two accounts, and a fee goes where nobody had said it would.
//!
//! A debug build panics at the fee, as it should at a bug, and the example catches that; with
//! `--release` the transfer is refused. Nothing has moved in either.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Bound;
use std::panic::{self, AssertUnwindSafe};

use spanset::{
    Cursor, Declared, DeclaredError, End, Key, Reader, Span, SpanSet, Timestamp, Writer,
};

/// The engine: balances by account, without versions.
#[derive(Clone, Debug, Default)]
struct Accounts(BTreeMap<Key, i64>);

impl Reader for Accounts {
    type Value = i64;
    type Error = Infallible;

    fn get(&self, key: &Key, _: Option<Timestamp>) -> Result<Option<i64>, Infallible> {
        Ok(self.0.get(key).copied())
    }

    fn cursor(
        &self,
        _: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = i64, Error = Infallible> + '_> {
        Box::new(Entries {
            accounts: &self.0,
            on: None,
        })
    }
}

impl Writer for Accounts {
    type Value = i64;
    type Error = Infallible;

    fn put(&mut self, key: Key, value: i64, _: Option<Timestamp>) -> Result<(), Infallible> {
        self.0.insert(key, value);
        Ok(())
    }

    fn delete(&mut self, key: Key, _: Option<Timestamp>) -> Result<(), Infallible> {
        self.0.remove(&key);
        Ok(())
    }
}

/// A cursor finds its way by the key that it is on.
struct Entries<'a> {
    accounts: &'a BTreeMap<Key, i64>,
    on: Option<(&'a Key, &'a i64)>,
}

impl Cursor for Entries<'_> {
    type Value = i64;
    type Error = Infallible;

    fn seek(&mut self, key: &Key) -> Result<(), Infallible> {
        self.on = self.accounts.range::<Key, _>(key..).next();
        Ok(())
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), Infallible> {
        let below = match end {
            End::Before(key) => Bound::Excluded(key),
            End::At(key) => Bound::Included(key),
            End::Unbounded => Bound::Unbounded,
        };
        self.on = self
            .accounts
            .range::<Key, _>((Bound::Unbounded, below))
            .next_back();
        Ok(())
    }

    fn next(&mut self) -> Result<(), Infallible> {
        let above = self
            .on
            .map(|(key, _)| (Bound::Excluded(key), Bound::Unbounded));
        self.on = above.and_then(|above| self.accounts.range::<Key, _>(above).next());
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Infallible> {
        let below = self.on.map(|(key, _)| ..key);
        self.on = below.and_then(|below| self.accounts.range::<Key, _>(below).next_back());
        Ok(())
    }

    fn item(&self) -> Option<(&Key, &i64)> {
        self.on
    }
}

/// Adds to a balance, in whatever can be read and written.
fn add<B, E>(batch: &mut B, account: &Key, amount: i64) -> Result<(), E>
where
    B: Reader<Value = i64, Error = E> + Writer<Value = i64, Error = E>,
{
    let balance = batch.get(account, None)?.unwrap_or(0);
    batch.put(account.clone(), balance + amount, None)
}

fn transfer<B, E>(batch: &mut B, from: &Key, to: &Key, fee: i64) -> Result<(), E>
where
    B: Reader<Value = i64, Error = E> + Writer<Value = i64, Error = E>,
{
    add(batch, from, -100)?;
    add(batch, to, 100 - fee)?;
    if fee > 0 {
        add(batch, &Key::from("bank"), fee)?;
    }
    Ok(())
}

fn main() -> Result<(), DeclaredError<Infallible>> {
    let (alice, bob) = (Key::from("alice"), Key::from("bob"));
    let mut accounts = Accounts(BTreeMap::from([(alice.clone(), 500), (bob.clone(), 0)]));

    let mut spans = SpanSet::new();
    spans.write(Span::point(alice.clone()));
    spans.write(Span::point(bob.clone()));

    for fee in [0, 1] {
        // The transfer works on a copy, which replaces the accounts if all of it was allowed.
        let mut batch = Declared::global(accounts.clone(), &spans);
        let done =
            panic::catch_unwind(AssertUnwindSafe(|| transfer(&mut batch, &alice, &bob, fee)));
        match done {
            Ok(Ok(())) => accounts = batch.into_inner(),
            Ok(Err(refused)) => println!("fee {fee}: {refused}"),
            Err(_) => println!("fee {fee}: panicked"),
        }

        let mut all = SpanSet::new();
        all.read(Span::all());
        let reader = Declared::global(&accounts, &all);
        let mut cursor = reader.cursor(None);
        cursor.seek_back(End::Unbounded)?;
        while let Some((account, balance)) = cursor.item() {
            println!("fee {fee}: {} has {balance}", account.escape_ascii());
            cursor.prev()?;
        }
    }
    Ok(())
}
