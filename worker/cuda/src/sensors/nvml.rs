//! Sensors through NVIDIA's management library. The library comes with the driver, and is loaded at
//! the first use.

use std::sync::{Arc, Mutex};

use nvml_wrapper::{
    Device, EventSet, Nvml,
    bitmasks::{device::ThrottleReasons, event::EventTypes},
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::event::XidError,
    error::NvmlError,
    struct_wrappers::event::EventData,
};

use super::{LIMITS, Reading, Sensors};
use crate::{gpu::Description, locked::locked};

/// Opens the sensors of these GPUs, or says why there are none.
pub fn open(gpus: &[Description]) -> Result<Arc<dyn Sensors>, String> {
    let nvml = Nvml::init().map_err(|error| format!("NVIDIA's management library (libnvidia-ml.so.1): {error}"))?;
    // The error watches borrow the library, so it is leaked and stays as long as the process.
    let nvml: &'static Nvml = Box::leak(Box::new(nvml));
    let watches = gpus.iter().filter_map(|gpu| Watch::begin(nvml, gpu)).collect();
    Ok(Arc::new(Management { nvml, watches: Mutex::new(watches) }))
}

struct Management {
    nvml: &'static Nvml,
    watches: Mutex<Vec<Watch>>,
}

/// Critical errors of one GPU, counted at each reading.
struct Watch {
    place: String,
    events: EventSet<'static>,
    errors: Errors,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Errors {
    count: u64,
    /// Number of the last error that has a number.
    last: Option<u64>,
    is_lost: bool,
}

/// Maximum number of errors counted at one reading. Further errors are counted at the next.
const ERRORS_AT_ONCE: usize = 64;

impl Watch {
    /// Starts to watch a GPU. Returns nothing if the GPU reports no errors.
    fn begin(nvml: &'static Nvml, gpu: &Description) -> Option<Self> {
        let device = nvml.device_by_pci_bus_id(gpu.place.as_str()).ok()?;
        let events = nvml.create_event_set().ok()?;
        let events = device.register_events(EventTypes::CRITICAL_XID_ERROR, events).ok()?;
        Some(Self { place: gpu.place.clone(), events, errors: Errors::default() })
    }

    fn look(&mut self) {
        for _ in 0..ERRORS_AT_ONCE {
            // The timeout of 0 makes the call return at once.
            if !self.errors.take(self.events.wait(0).as_ref().map(number)) {
                return;
            }
        }
    }
}

impl Errors {
    /// Counts an event, given its number. Returns whether there was an event, after which another
    /// may be pending.
    fn take(&mut self, event: Result<Option<u64>, &NvmlError>) -> bool {
        match event {
            Ok(number) => {
                self.count += 1;
                self.last = number.or(self.last);
            }
            // A lost GPU answers every further query with this error, which is counted once.
            Err(NvmlError::GpuLost) if !self.is_lost => {
                self.count += 1;
                self.is_lost = true;
            }
            Err(_) => {}
        }
        event.is_ok()
    }
}

impl Sensors for Management {
    fn read(&self, gpu: &Description) -> Reading {
        let mut watches = locked(&self.watches);
        let watch = watches.iter_mut().find(|watch| watch.place == gpu.place);
        let errors = watch.map(|watch| {
            watch.look();
            watch.errors
        });
        let of_errors = Reading {
            errors: errors.map(|errors| errors.count),
            last_error: errors.and_then(|errors| errors.last),
            ..Reading::default()
        };
        // Looked up by place on the bus: the driver numbers the visible GPUs, and this library all
        // of them. A lost GPU is not found any more, but its errors are still reported.
        let Ok(device) = self.nvml.device_by_pci_bus_id(gpu.place.as_str()) else { return of_errors };
        let thousandth = |value: Result<f64, NvmlError>| value.ok().map(|value| value / 1e3);
        Reading {
            busy: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
            memory_used: device.memory_info().ok().map(|memory| memory.used),
            power: thousandth(device.power_usage().map(f64::from)),
            energy: thousandth(device.total_energy_consumption().map(|energy| energy as f64)),
            clock: device.clock_info(Clock::SM).ok().map(|megahertz| f64::from(megahertz) * 1e6),
            temperature: device.temperature(TemperatureSensor::Gpu).ok(),
            limited_by: limits(&device),
            ..of_errors
        }
    }
}

fn number(event: &EventData<'_>) -> Option<u64> {
    match event.event_data {
        Some(XidError::Value(number)) => Some(number),
        Some(XidError::Unknown) | None => None,
    }
}

/// Reasons that keep the clock low. An idle GPU is not limited.
fn limits(device: &Device<'_>) -> Option<Vec<&'static str>> {
    const REASONS: [ThrottleReasons; LIMITS.len()] = [
        ThrottleReasons::SW_POWER_CAP,
        ThrottleReasons::HW_SLOWDOWN,
        ThrottleReasons::SW_THERMAL_SLOWDOWN,
        ThrottleReasons::HW_THERMAL_SLOWDOWN,
        ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
        ThrottleReasons::SYNC_BOOST,
        ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
        ThrottleReasons::DISPLAY_CLOCK_SETTING,
    ];
    let reasons = device.current_throttle_reasons().ok()?;
    let limits = REASONS.iter().zip(LIMITS);
    Some(limits.filter(|(reason, _)| reasons.contains(**reason)).map(|(_, limit)| limit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_gpu_counts_as_one_error_however_often_it_is_read() {
        let mut errors = Errors::default();
        assert!(errors.take(Ok(Some(13))), "there may be more");
        assert!(errors.take(Ok(None)));
        for _ in 0..3 {
            assert!(!errors.take(Err(&NvmlError::Timeout)));
        }
        assert_eq!(errors, Errors { count: 2, last: Some(13), is_lost: false });
        for _ in 0..3 {
            assert!(!errors.take(Err(&NvmlError::GpuLost)));
        }
        assert_eq!(errors, Errors { count: 3, last: Some(13), is_lost: true });
    }

    #[test]
    fn opening_sensors_without_a_driver_fails_with_a_reason() {
        // On a machine with a driver, no GPU has this place.
        let nowhere = Description {
            name: String::new(),
            place: "FFFFFFFF:FF:1F.0".to_owned(),
            memory_bytes: 0,
            multiprocessors: 1,
            shared_bytes: 0,
            has_clusters: false,
        };
        match open(std::slice::from_ref(&nowhere)) {
            Ok(sensors) => assert_eq!(sensors.read(&nowhere), Reading::default()),
            Err(error) => assert!(error.contains("libnvidia-ml.so.1"), "{error}"),
        }
    }
}
