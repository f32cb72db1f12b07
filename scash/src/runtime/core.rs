//! The protocol state of a rank, and the one place where its orders are carried out and its peers' messages
//! are taken.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::runtime::Inquiry;
use crate::runtime::context::RankContext;
use crate::runtime::looks::Looks;
use crate::runtime::lost;
use crate::runtime::machine::{RankMachine, Tools};
use crate::runtime::races::Search;
use crate::runtime::twins::Twins;
use scash_comm::Event;
use scash_proto::Rank;
use scash_proto::interpreter::{Answer, Interpreter, Step};
use scash_proto::node::{Node, Output};
use scash_proto::wire::stall::Activities;

/// Protocol state and what its orders work on. Behind one lock.
pub(crate) struct Core {
    pub(crate) node: Node,
    interpreter: Interpreter,
    tools: Tools,
    /// When this rank looks for what peers want.
    pub(crate) looks: Looks,
}

impl Core {
    pub(crate) fn new(node: Node, config: &Config) -> Result<Core> {
        let search = Search::new(config.races, config.pages);
        let interpreter = Interpreter::new(node.size());
        let tools = Tools::new(twins(&node, config)?, search);
        Ok(Core { node, interpreter, tools, looks: Looks::default() })
    }

    /// The rank has come back, in another process: of its peers nobody has anything of it.
    pub(crate) fn reborn(&mut self, config: &Config) -> Result<()> {
        self.node.reborn();
        self.interpreter = Interpreter::new(self.node.size());
        self.tools.renew(twins(&self.node, config)?);
        Ok(())
    }

    /// Carries out one order.
    pub(crate) fn execute(&mut self, context: &RankContext, order: Output) -> Result<Step> {
        let mut machine = RankMachine { context, node: &mut self.node, tools: &mut self.tools };
        self.interpreter.carry_out(&mut machine, order)
    }

    /// Carries out one order at once: a message leaves before the thread that has caused it goes back to the
    /// program.
    pub(crate) fn execute_now(&mut self, context: &RankContext, order: Output) -> Result<Step> {
        let is_message = order.is_message();
        let step = self.execute(context, order)?;
        if is_message {
            context.endpoint.flush()?;
        }
        Ok(step)
    }

    /// Takes what a peer sent.
    pub(crate) fn take(&mut self, context: &RankContext, event: Event<'_>) -> Result<()> {
        let (from, kind, payload) = match event {
            Event::Message { from, kind, payload } => (Rank(from), kind, payload),
            Event::Part { from, .. } => {
                let why = "it sent a message to be taken in parts, which no rank does".to_owned();
                return Err(scash_comm::Error::Protocol { rank: from, why }.into());
            }
            Event::Down { rank } => return Err(lost::error(context, rank)),
        };
        let mut machine = RankMachine { context, node: &mut self.node, tools: &mut self.tools };
        self.interpreter.take(&mut machine, from, kind, payload)
    }

    /// The ranks that something was put to since it was last waited for.
    pub(crate) fn unfenced(&self) -> Vec<Rank> {
        self.interpreter.unfenced().to_vec()
    }

    /// What a thread hears that waits, once that is decided. Says so once.
    pub(crate) fn take_answer(&mut self, object: u32, who: u64) -> Option<Answer> {
        let answers = &mut self.tools.answers;
        let at = answers.iter().position(|&(o, w, _)| (o, w) == (object, who))?;
        Some(answers.swap_remove(at).2)
    }

    /// What ranks ask and say of who waits for whom.
    pub(crate) fn inquiry(&mut self) -> &mut Inquiry {
        &mut self.tools.inquiry
    }

    /// Answers those that asked what this rank does.
    pub(crate) fn answer_inquiries(&mut self, context: &RankContext) -> Result<()> {
        let inquiry = &mut self.tools.inquiry;
        if inquiry.is_asked() { inquiry.answer(context, all_activities(context, &self.node)) } else { Ok(()) }
    }

    /// The search for data races, if there is one, with what it works on.
    pub(crate) fn search(&mut self) -> Option<(&mut Search, &Node)> {
        Some((self.tools.search.as_mut()?, &self.node))
    }
}

/// Those of a rank that has no copies yet.
fn twins(node: &Node, config: &Config) -> Result<Twins> {
    // Of pages whose frames ranks share none is made.
    let pages = if node.shares_frames() { 0 } else { config.pages };
    Twins::new(pages).map_err(|e| Error::Join(format!("no address space for twins: {e}")))
}

/// What this rank's threads do: what its node knows, and what it does not.
pub(crate) fn all_activities(context: &RankContext, node: &Node) -> Activities {
    let mut all = node.activities();
    all.threads.extend(context.objects.activities());
    all.threads.sort_unstable();
    all
}
