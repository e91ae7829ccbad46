//! The first pattern of messages: nodes open exchanges when they start, and whoever receives a message answers
//! it; a client, while it has something to hand off.

use super::{CLIENT, Fleet, Message, add_one, index, merge_and_check};
use crate::core::Node;

impl Fleet {
    /// A node of tier 0 with every other, a server with its node of tier 0.
    pub(super) fn open_exchanges(&mut self, node: Node) -> Result<(), String> {
        let fixed = &mut self.fixed[index(node)];
        add_one(&mut fixed.replica, &mut self.issued)?;
        let with = if fixed.replica.tier() == 0 { 0..self.setup.tier0 } else { fixed.root..fixed.root + 1 };
        for to in with {
            if to != node {
                let view = self.fixed[index(node)].replica.view_for(&to, 0);
                self.send_fixed(to, view);
            }
        }
        Ok(())
    }

    /// A client starts, or comes back.
    pub(super) fn open_exchange_of_client(&mut self, id: Node) -> Result<(), String> {
        let first = self.first_client();
        let client = self.clients[index(id - first)].as_mut().expect("it is there");
        add_one(&mut client.replica, &mut self.issued)?;
        let view = client.replica.view_for(&client.server, 1);
        client.send(&mut self.network, &mut self.queue, client.server, view);
        Ok(())
    }

    pub(super) fn answer(&mut self, message: &Message) -> Result<(), String> {
        if self.is_client(message.to) {
            self.answer_as_client(message)
        } else {
            self.answer_as_fixed(message)
        }
    }

    fn answer_as_fixed(&mut self, message: &Message) -> Result<(), String> {
        self.take_ids(message);
        let replica = &mut self.fixed[index(message.to)].replica;
        merge_and_check(&self.setup, replica, &message.view, self.issued)?;
        self.reports_checked += 1;
        let reply = replica.reply_to(&message.view);
        self.send_fixed(*message.view.id(), reply);
        Ok(())
    }

    fn answer_as_client(&mut self, message: &Message) -> Result<(), String> {
        let first = self.first_client();
        let client = self.clients[index(message.to - first)].as_mut().expect("no client retires here");
        debug_assert_eq!(client.replica.tier(), CLIENT);
        if !client.active && self.setup.goes_offline {
            return Ok(());
        }
        let from = *message.view.id();
        client.introduced |= from == client.server;
        if client.active && self.counting {
            add_one(&mut client.replica, &mut self.issued)?;
        }
        merge_and_check(&self.setup, &mut client.replica, &message.view, self.issued)?;
        self.reports_checked += 1;
        if client.replica.must_hand_off() {
            let reply = client.replica.reply_to(&message.view);
            client.send(&mut self.network, &mut self.queue, from, reply);
        }
        Ok(())
    }
}
