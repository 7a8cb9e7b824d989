//! The commands of people over all products, and the documentation.

mod broken;
mod causes;
mod doctor;
mod installed;
mod page;
mod readme;
mod without_access;
