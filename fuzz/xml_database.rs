//! An empty database in memory, for the targets of XML.

use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, Volumes};

pub(crate) fn database() -> Database {
    let geometry = Geometry { sector_bytes: 512, sector_count: 64 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let data = Box::new(DeviceVolume::format(Box::new(device)).expect("the device is large enough"));
    let (log_bytes, checkpoint_bytes) = (1 << 20, 256 << 10);
    let settings = Settings { log_bytes, checkpoint_bytes, ..Settings::default() };
    Database::create(Volumes::new(data, None), &settings, 1).expect("memory has room")
}
