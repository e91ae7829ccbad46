//! The second pattern of messages: once in a while everybody sends to whom it has open business with, and
//! answers only to close something.

use super::leaving::Leaving;
use super::{Event, Fleet, Message, add_one, index, merge_and_check};
use crate::core::Node;
use crate::handoff::setup::{Cleanup, Pattern};

impl Fleet {
    pub(super) fn round(&mut self, node: Node) -> Result<(), String> {
        let goes_on = if self.is_client(node) { self.client_round(node)? } else { self.fixed_round(node) };
        if let Pattern::Rounds { every_ms } = self.setup.pattern
            && goes_on
        {
            self.queue.push(every_ms, Event::Round(node));
        }
        Ok(())
    }

    /// A node of tier 0 sends to the others, a server to its node of tier 0, and both to all for which they
    /// hold slots.
    fn fixed_round(&mut self, node: Node) -> bool {
        self.fold_silent(node);
        let mut to = std::mem::take(&mut self.scratch);
        let fixed = &self.fixed[index(node)];
        if fixed.replica.tier() == 0 {
            to.extend((0..self.setup.tier0).filter(|&other| other != node));
        } else {
            to.push(fixed.root);
        }
        to.extend(fixed.replica.handshake().desk().slots().keys());
        for &to in &to {
            self.send_unless_gone(node, to);
        }
        to.clear();
        self.scratch = to;
        if self.cleanup() == Some(Cleanup::On) {
            self.pass_on(node);
        }
        true
    }

    fn send_unless_gone(&mut self, from: Node, to: Node) {
        let tier = match to {
            to if to < self.setup.tier0 => 0,
            to if self.is_server(to) => 1,
            to if self.client(to).is_none() => return, // Nobody would receive it.
            _ => 2,
        };
        let view = self.fixed[index(from)].replica.view_for(&to, tier);
        self.send_fixed(to, view);
    }

    /// An active client counts one and sends to its server and, to close what is open, to every other server
    /// for which it holds a token. False if it is gone.
    fn client_round(&mut self, id: Node) -> Result<bool, String> {
        let first = self.first_client();
        let Some(client) = &mut self.clients[index(id - first)] else { return Ok(false) };
        if !client.active {
            return Ok(true);
        }
        match client.leaving {
            None if self.counting => add_one(&mut client.replica, &mut self.issued)?,
            None => {}
            Some(Leaving::Gracefully) if !client.replica.must_hand_off() => {
                self.leave(id);
                return Ok(false);
            }
            Some(Leaving::CutOff { .. }) if *client.replica.own() == 0 => {
                self.send_notice(id)?;
                return Ok(true);
            }
            Some(_) => {}
        }
        let view = client.replica.view_for(&client.server, 1);
        client.send(&mut self.network, &mut self.queue, client.server, view);
        for token in client.replica.handshake().tokens() {
            if token.target != client.server && !client.is_cut_off_from(token.target) {
                let view = client.replica.cleaning_view(&token.target, 1);
                client.send(&mut self.network, &mut self.queue, token.target, view);
            }
        }
        Ok(true)
    }

    pub(super) fn receive(&mut self, message: &Message) -> Result<(), String> {
        if self.is_client(message.to) {
            return self.receive_as_client(message);
        }
        self.take_ids(message);
        self.note_heard(message);
        let replica = &mut self.fixed[index(message.to)].replica;
        merge_and_check(&self.setup, replica, &message.view, self.issued)?;
        self.reports_checked += 1;
        let offers = message.view.tokens().iter().any(|token| token.target == message.to);
        if replica.tier() == 1 && offers {
            let reply = replica.reply_to(&message.view);
            self.send_fixed(*message.view.id(), reply);
        }
        Ok(())
    }

    fn receive_as_client(&mut self, message: &Message) -> Result<(), String> {
        let from = *message.view.id();
        let first = self.first_client();
        let Some(client) = &mut self.clients[index(message.to - first)] else { return Ok(()) };
        if !client.active || client.is_cut_off_from(from) {
            return Ok(());
        }
        client.introduced |= from == client.server;
        merge_and_check(&self.setup, &mut client.replica, &message.view, self.issued)?;
        self.reports_checked += 1;
        if from != client.server && message.view.has_slot_for(&message.to) {
            let view = client.replica.cleaning_view(&from, 1);
            client.send(&mut self.network, &mut self.queue, from, view);
        }
        Ok(())
    }
}
