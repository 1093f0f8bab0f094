//! Commands and joins that have not ended, with who waits for whom: arenas, so that nothing allocates
//! once they have grown to what is in flight.
//!
//! 1. A node is used by one command or join at a time; its generation rises when that ends.
//! 2. An edge belongs to the node whose end it tells, and goes back with it.

use super::Ticket;

/// No node, edge or watcher.
pub(crate) const NONE: u32 = u32::MAX;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Several ends together, or a promise that somebody will name one.
    Join,
    /// Several ends together, to which more may come while nobody waits for it.
    Gathering,
    Read,
    /// A read of the host that goes before everything of its die that has not begun.
    UrgentRead,
    Program,
    Erase,
}

impl Kind {
    /// Whether it stands for ends of others.
    #[inline]
    pub(crate) const fn is_join(self) -> bool {
        matches!(self, Self::Join | Self::Gathering)
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Waits for others, outside every queue.
    Parked,
    /// In the queue of its die.
    Queued,
    /// The command has begun.
    Begun,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The next in the queue of its die, or in the list of free nodes.
    pub(super) next: u32,
    /// The last of those who wait for its end; the list is a ring.
    pub(super) last_edge: u32,
    pub(super) generation: u32,
    /// Ends that it waits for.
    pub(super) pending: u32,
    /// Whom the driver tells of its end.
    pub(super) watcher: u32,
    /// The command of the same plane group that enters the queue right behind it.
    pub(super) follower: u32,
    pub(super) group: u32,
    /// Equal commands that it stands for and that have not ended: they follow each other.
    pub(super) left: u32,
    /// Of each of them.
    pub(super) command_ns: u32,
    pub(super) array_ns: u32,
    pub(super) transfer_ns: u32,
    pub(super) die: u16,
    pub(super) kind: Kind,
    pub(super) progress: Progress,
    /// Whether it is to wait for what others want of its die.
    pub(super) yields: bool,
    pub(super) cause: u8,
    pub(super) planes: u8,
    /// One more than the flash page that the page register holds afterwards; 0 for none.
    pub(super) register_page: u64,
    /// Since when it is where it is: parked, queued, waiting for the channel.
    pub(super) since: u64,
    /// Work of others than the host on its die when it entered the queue.
    pub(super) foreign_ns: u64,
}

impl Node {
    /// What nobody waits for and what waits for nobody, from `now` on.
    #[inline(always)]
    pub(super) const fn of(kind: Kind, now: u64) -> Self {
        Self {
            next: NONE,
            last_edge: NONE,
            generation: 0,
            pending: 0,
            watcher: NONE,
            follower: NONE,
            group: 0,
            left: 0,
            command_ns: 0,
            array_ns: 0,
            transfer_ns: 0,
            die: 0,
            kind,
            progress: Progress::Parked,
            yields: false,
            cause: 0,
            planes: 0,
            register_page: 0,
            since: now,
            foreign_ns: 0,
        }
    }

    /// What one of its commands takes, if nothing is in its way.
    #[inline(always)]
    pub(super) fn work_ns(&self) -> u64 {
        u64::from(self.command_ns) + u64::from(self.array_ns) + u64::from(self.transfer_ns)
    }

    /// Whether somebody waits for its end.
    #[inline]
    pub(super) const fn is_awaited(&self) -> bool {
        self.last_edge != NONE || self.watcher != NONE
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    target: u32,
    next: u32,
}

/// All nodes and edges, with lists of those that are free.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    first_free: u32,
    edges: Vec<Edge>,
    first_free_edge: u32,
    /// How many nodes are in use.
    pub(super) used: u32,
}

impl Nodes {
    pub(super) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            first_free: NONE,
            edges: Vec::new(),
            first_free_edge: NONE,
            used: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    #[inline]
    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket::of_node(index, self.nodes[index as usize].generation)
    }

    /// The node behind a ticket, if that has not ended.
    #[inline]
    pub(super) fn unfinished(&self, ticket: Ticket) -> Option<u32> {
        let (index, generation) = ticket.node()?;
        let node = self.nodes.get(index as usize)?;
        (node.generation == generation).then_some(index)
    }

    #[inline(always)]
    pub(super) fn add(&mut self, node: Node) -> u32 {
        self.used += 1;
        let index = self.first_free;
        if index == NONE {
            self.nodes.push(Node { generation: 1, ..node });
            return u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 commands at once");
        }
        let place = &mut self.nodes[index as usize];
        self.first_free = place.next;
        *place = Node { generation: place.generation, ..node };
        index
    }

    /// `target` waits for the end of `source`, which has not come.
    #[inline]
    pub(super) fn connect(&mut self, source: u32, target: u32) {
        let place = match self.first_free_edge {
            NONE => {
                self.edges.push(Edge { target, next: NONE });
                u32::try_from(self.edges.len() - 1).expect("fewer than 2^32 waits at once")
            }
            place => {
                self.first_free_edge = self.edges[place as usize].next;
                self.edges[place as usize].target = target;
                place
            }
        };
        let last = std::mem::replace(&mut self.nodes[source as usize].last_edge, place);
        let first = match last {
            NONE => place,
            last => std::mem::replace(&mut self.edges[last as usize].next, place),
        };
        self.edges[place as usize].next = first;
        self.nodes[target as usize].pending += 1;
    }

    /// Takes the first edge of a node, in the order in which they were made; answers who it told.
    #[inline]
    pub(super) fn take_edge(&mut self, index: u32) -> Option<u32> {
        let last = self.nodes[index as usize].last_edge;
        if last == NONE {
            return None;
        }
        let first = self.edges[last as usize].next;
        let edge = self.edges[first as usize];
        if first == last {
            self.nodes[index as usize].last_edge = NONE;
        } else {
            self.edges[last as usize].next = edge.next;
        }
        self.edges[first as usize].next = self.first_free_edge;
        self.first_free_edge = first;
        Some(edge.target)
    }

    /// What the node stood for has ended; it has no edges left.
    #[inline(always)]
    pub(super) fn free(&mut self, index: u32) {
        self.used -= 1;
        let node = &mut self.nodes[index as usize];
        node.generation = node.generation.wrapping_add(1).max(1);
        node.next = self.first_free;
        self.first_free = index;
    }

    /// Nodes in use, by index; takes time in proportion to the most that ever were.
    pub(super) fn in_use(&self) -> Vec<u32> {
        let mut is_free = vec![false; self.nodes.len()];
        let mut next = self.first_free;
        while next != NONE {
            is_free[next as usize] = true;
            next = self.nodes[next as usize].next;
        }
        (0..).zip(&is_free).filter(|(_, free)| !**free).map(|(index, _)| index).collect()
    }

    /// Nothing is in flight any more; tickets of what was are of what has ended.
    pub(super) fn clear(&mut self) {
        for index in self.in_use() {
            self.free(index);
        }
        self.edges.clear();
        self.first_free_edge = NONE;
        for node in &mut self.nodes {
            node.last_edge = NONE;
        }
    }
}
